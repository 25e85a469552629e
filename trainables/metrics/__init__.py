"""Metrics of an unlearned model. Each module has one formula on per-item values, and the records of its metrics."""
