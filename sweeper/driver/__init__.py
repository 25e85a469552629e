"""Run one sweep in the driver process."""
