"""Compute the frontier and its hypervolume, judge the models, and recommend one of them."""
