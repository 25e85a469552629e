"""Write messages to stderr, and show that a long step is running. A write error on stderr never ends a sweep."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from analysis.words import duration

HEARTBEAT = 30.0
"""Seconds between two lines in a log."""


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


def progress_bar(console: Console) -> Progress:
    """Return a progress bar for a terminal. The bar disappears at the end."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


@contextmanager
def heartbeat(console: Console, describe: Callable[[], str]) -> Iterator[None]:
    """While the block runs, print the text from ``describe`` every half minute. On a terminal, print nothing."""
    if console.is_terminal:
        yield
        return
    start = time.monotonic()
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(HEARTBEAT):
            line = f"... {describe()}; running for {duration(time.monotonic() - start)}"
            console.print(line, soft_wrap=True)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
