"""The exception class of this package for errors that a user can correct."""

from __future__ import annotations


class AnalysisError(ValueError):
    """A sweep's files cannot be read or are inconsistent; the message is for the user."""

    exit_code = 2
