"""The command line and the sweep: search, placement, tracking, live display, resume."""
