"""An error while messages are written to stderr never ends a command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = (
    "from sweeper.followers.console import own_console\n"
    "console = own_console()\n"
    "for number in range(1000): console.print('a line', number)\n"
    "print('done', flush=True)\n"
)


def test_a_reader_that_leaves_ends_nothing() -> None:
    """For example ``2>&1 | head``."""
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        process.stderr.close()
        assert process.stdout.read() == "done\n"
    assert process.returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_behind_stderr_ends_nothing() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=full, text=True)
    assert (done.returncode, done.stdout) == (0, "done\n")


def test_a_command_runs_with_streams_closed() -> None:
    command = f"{sys.executable} -m sweeper list methods --json <&- >&- 2>&-"
    assert subprocess.run(["bash", "-c", command], check=False).returncode == 0
