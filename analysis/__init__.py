"""Reads a table of finished trials: frontiers, indicators, figures, report."""
