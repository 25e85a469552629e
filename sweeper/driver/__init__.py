"""The process that runs a sweep: it opens the sweep, drives Ray Tune, records events and finalizes."""
