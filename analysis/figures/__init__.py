"""Figures. Each has a pure function ``*_data`` that computes its content, and a thin renderer."""
