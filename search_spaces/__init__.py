"""Descriptions of settings, and search spaces over their values. Imports neither torch nor ray."""
