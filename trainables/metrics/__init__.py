"""Metrics of an unlearned model, one module per formula, on per-item values, with the records of its metrics."""
