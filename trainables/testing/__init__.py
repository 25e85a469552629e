"""Conformance checks for your own weightings, objectives, metrics, data sets and so on.

A check raises AssertionError if it fails."""
