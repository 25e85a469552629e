"""Metrics of an unlearned model. Each module defines a formula on per-item values, and the metrics that use it."""
