"""Run one sweep in the driver process: open the sweep, drive Ray Tune, record events, and finalize the sweep."""
