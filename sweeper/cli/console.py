"""Where the command line says how things go, beside its results: nothing that happens there ends a sweep."""

from __future__ import annotations

import os
import sys
from typing import Any

from rich.console import Console


def own_console() -> Console:
    """stderr, and in a notebook below the cell."""
    console = Console(file=_Unfailing())  # type: ignore[arg-type]
    return Console() if console.is_jupyter else console


class _Unfailing:
    """stderr whose reader may leave, as ``2>&1 | head`` does, or whose disk may be full.

    What is said from then on goes nowhere.
    """

    def __init__(self) -> None:
        self._stream = sys.stderr  # a live display puts itself in its place

    def __getattr__(self, name: str) -> Any:
        if name == "rich_proxied_file":  # by which rich would go round this one
            raise AttributeError(name)
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """How much of the text was taken: all of it."""
        try:
            self._stream.write(text)
        except OSError:
            self._silence()
        return len(text)

    def flush(self) -> None:
        """Have it written, if that can be."""
        try:
            self._stream.flush()
        except OSError:
            self._silence()

    def _silence(self) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)
