"""Compute tables that compare each method without AutoLR and with AutoLR, like the tables of arXiv:2410.22086."""
