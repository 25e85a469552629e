"""Compute comparison tables like the paper's. Each row has the metrics of a method without AutoLR and with AutoLR."""
