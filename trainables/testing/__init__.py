"""Conformance checks for your own weightings, objectives, metrics, data sets, ...: each raises AssertionError."""
