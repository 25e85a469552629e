"""Evaluate a model: its losses, its metrics, and the per-item values from which they are computed."""
