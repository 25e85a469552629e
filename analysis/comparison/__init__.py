"""Compute the paper's tables: methods by metrics, without and with AutoLR."""
