"""The one error of this package that a user can mend."""

from __future__ import annotations


class AnalysisError(ValueError):
    """A sweep's files cannot be read or do not mean what they should; the message is a plain sentence for the user."""

    exit_code = 2
