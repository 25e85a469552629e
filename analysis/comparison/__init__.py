"""Compute comparison tables like those of the paper: each row has the metrics of one method without and with AutoLR."""
