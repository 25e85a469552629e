"""The figures of a report. ``*_data`` (a pure function) computes the content of a figure, and ``draw_*`` draws it."""
