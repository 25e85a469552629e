"""``python -m sweeper``."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType


def start() -> None:
    """Run the command line; Ctrl-C before there is anything to save ends it with one line and exit code 130."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # a shell's background job ignores it
        signal.signal(signal.SIGINT, _end)
    from sweeper.cli import main

    signal.signal(signal.SIGINT, before)
    main()


def _end(number: int, frame: FrameType | None) -> None:
    # No exception: raised in the middle of an import it could come out as another error.
    os.write(2, b"error: interrupted\n")
    os._exit(130)


if __name__ == "__main__":
    start()
