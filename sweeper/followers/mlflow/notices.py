"""Warnings about a server that is down, in a number that a log can bear."""

from __future__ import annotations

import logging
import time

_INTERVAL = 60.0  # seconds between two warnings of one kind
_logger = logging.getLogger("sweeper.followers.mlflow")


class Notices:
    """Logs at most one warning a minute of each kind: a server that is down for a night must not fill the log."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}

    def warn(self, kind: str, message: str) -> None:
        """Log ``message`` unless a warning of this ``kind`` was logged within the last minute."""
        now = time.monotonic()
        if now - self._last.get(kind, -_INTERVAL) >= _INTERVAL:
            self._last[kind] = now
            _logger.warning("%s", message)

    def over(self, kind: str, message: str) -> None:
        """Say that what was warned about has ended; silent when nobody was warned."""
        if self._last.pop(kind, None) is not None:
            _logger.info("%s", message)
