"""A sweep with damaged tables is neither judged nor resumed: the message names the file, which stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sweeper.store.folder import begin
from tests.sweeper.cli.conftest import invoke
from tests.sweeper.conftest import SETTINGS


def make_resumable(golden: Path) -> None:
    """The golden tables under a sweep.json of today's settings."""
    (golden / "sweep.json").unlink()
    begin(replace(SETTINGS, trials=200, tracking_uri="http://127.0.0.1:9"), golden)


def open_a_quote(content: bytes) -> bytes:
    first, second, rest = content.split(b"\n", 2)
    head, tail = second.split(b",", 1)
    return b"\n".join((first, head + b',"' + tail, rest))


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "a quote opened": open_a_quote,
    "binary": lambda content: bytes(range(256)) * 8,
    "zeroed": lambda content: content[:1500] + bytes(500) + content[2000:],
    "a line cut in the middle": lambda content: content.replace(b",", b"", 3),
}


@pytest.mark.parametrize("command", [["report"], ["pick"], ["resume"], ["resume", "--trials", "500"]], ids=" ".join)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_table_is_named_and_left_as_it_is(golden: Path, damage: str, command: list[str]) -> None:
    if command[0] == "resume":
        make_resumable(golden)
    table = golden / "trials.csv"
    table.write_bytes(damaged := DAMAGES[damage](table.read_bytes()))
    done = invoke(command[0], golden, *command[1:])
    assert isinstance(done.exception, SystemExit)
    assert done.exit_code == 2
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert str(table) in line
    assert table.read_bytes() == damaged


@pytest.mark.parametrize("name", ["history.csv", "candidates.csv", "auto_lr.csv"])
def test_any_other_damaged_table_is_named_before_a_sweep_goes_on(golden: Path, name: str) -> None:
    make_resumable(golden)
    path = golden / name
    path.write_bytes((path.read_bytes() if path.is_file() else b"trial_id,step,epoch,checkpoint\n") + b"\0\0\0\0,1\n")
    done = invoke("resume", golden)
    assert done.exit_code == 2
    assert str(path) in done.stderr
