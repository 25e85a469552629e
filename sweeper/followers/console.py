"""Write all messages to a console on stderr. A write error on stderr never ends a sweep."""

from __future__ import annotations

import os
import sys
from typing import Any

from rich.console import Console


def own_console() -> Console:
    """Return a console that writes to stderr or, in a notebook, below the cell."""
    console = Console(file=_Unfailing(), highlight=False, markup=False)  # type: ignore[arg-type]
    return Console(highlight=False, markup=False) if console.is_jupyter else console


class _Unfailing:
    """Writes to stderr. After a write error, such as a closed pipe or a full disk, discards all text."""

    def __init__(self) -> None:
        self._stream = sys.stderr  # a live display replaces sys.stderr

    def __getattr__(self, name: str) -> Any:
        if name == "rich_proxied_file":  # if this existed, rich would bypass this object
            raise AttributeError(name)
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            self._stream.write(text)
        except OSError:
            self._silence()
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            self._silence()

    def _silence(self) -> None:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self._stream.fileno())
        os.close(null)
