"""Compute tables that compare each method with and without AutoLR, like the tables in arXiv:2410.22086."""
