"""Metrics of an unlearned model. Each module defines formulas on per-item values, and metrics with these formulas."""
