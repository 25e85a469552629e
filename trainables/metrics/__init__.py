"""Metrics of an unlearned model, a module per formula: the formula on per-item values, and its metrics' records."""
