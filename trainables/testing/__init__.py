"""Checks for your own weightings, objectives, metrics, data sets, models and prompt templates."""
