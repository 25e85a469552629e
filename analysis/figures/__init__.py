"""The figures of a report. For each figure, ``*_data`` (a pure function) computes the content, and ``draw_*`` draws
it."""
