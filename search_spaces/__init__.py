"""Descriptions of settings, and search spaces over their values. The package imports neither torch nor ray."""
