"""Compute tables like those of the paper: a row per method, a column per metric, without and with AutoLR."""
