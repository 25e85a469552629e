"""Analyze the trade-off: compute the frontier and its hypervolume, judge the models, and recommend a model."""
