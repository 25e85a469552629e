"""Describe, read and resolve the options of commands, and store the settings of sweeps."""
