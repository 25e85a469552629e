"""Analyze tables of trials: compute frontiers and quality indicators, draw figures and write reports."""
