"""Metrics of an unlearned model. Each module defines formulas on per-item values, and the metrics that use them."""
