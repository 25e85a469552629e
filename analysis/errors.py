"""The exception class of this package for errors that a user can correct."""

from __future__ import annotations


class AnalysisError(ValueError):
    """Raised if the files of a sweep, or other input files, cannot be read or are inconsistent."""

    exit_code = 2
