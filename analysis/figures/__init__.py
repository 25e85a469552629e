"""The figures of a report. ``*_data`` computes the content of a figure, and ``draw_*`` draws the figure."""
