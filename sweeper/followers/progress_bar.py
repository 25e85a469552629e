"""Show that a long step is running: a progress bar on a terminal, or a line every half minute in a log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from analysis.words import duration

HEARTBEAT = 30.0
"""Seconds between two lines in a log."""


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
            line = f"... {describe()}, {duration(time.monotonic() - start)}"
            console.print(line, soft_wrap=True)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
