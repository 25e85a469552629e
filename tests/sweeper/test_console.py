"""An error while messages are written to stderr never ends a command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
from sweeper.console import own_console
console = own_console()
for number in range(1000): console.print("a line", number)
print("done", flush=True)
"""
NO_FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")


@pytest.mark.parametrize(
    ("typed", "printed"),
    [
        ('"$1" -c "$2" 2> >(true)', "done\n"),  # a reader that leaves
        pytest.param('"$1" -c "$2" 2> /dev/full', "done\n", marks=NO_FULL),
        ('"$1" -m sweeper list methods --json <&- >&- 2>&-', ""),
    ],
)
def test_streams_that_cannot_be_written_end_nothing(typed: str, printed: str) -> None:
    command = ["bash", "-c", typed, "", sys.executable, PROGRAM]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, printed)
