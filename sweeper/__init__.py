"""The command line and the sweep: search, placement, tracking, live display, resume."""

__version__ = "0.1.0"
