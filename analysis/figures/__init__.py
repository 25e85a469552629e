"""Figures: each a pure ``*_data`` and a thin renderer."""
