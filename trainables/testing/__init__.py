"""Checks for your own weightings, objectives, metrics, data sets and models."""
