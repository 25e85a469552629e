"""Metrics of an unlearned model, one module per formula: the formula on per-item values, and the records of its metrics."""
