"""The settings of a sweep."""
