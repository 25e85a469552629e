"""A sweep whose tables are damaged is neither judged nor gone on with: the file, the place and what to do are said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from search_spaces.builtin import default_space
from sweeper.cli import main
from sweeper.folder import begin
from sweeper.settings import SweepSettings
from trainables.methods import options_by_method
from trainables.spec import TrialSpec

SETTINGS = SweepSettings(
    name="sweep",
    base=TrialSpec(dataset="tofu", epochs=2),
    space=default_space(methods=options_by_method(("gdiff",))),
    trials=200,
    tracking_uri="sqlite:////nowhere/mlflow.db",
)


def can_go_on(golden: Path) -> None:
    """The golden tables under a sweep.json of today's settings."""
    (golden / "sweep.json").unlink()
    begin(SETTINGS, golden)


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
        can_go_on(golden)
    table = golden / "trials.csv"
    table.write_bytes(damaged := DAMAGES[damage](table.read_bytes()))
    done = CliRunner().invoke(main, [command[0], str(golden), *command[1:]])
    assert isinstance(done.exception, SystemExit)
    assert done.exit_code == 2
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert str(table) in line
    if command[0] == "resume":
        assert "runs again" in line
    assert table.read_bytes() == damaged


@pytest.mark.parametrize("name", ["history.csv", "candidates.csv", "auto_lr.csv"])
def test_any_other_damaged_table_is_named_before_a_sweep_goes_on(golden: Path, name: str) -> None:
    can_go_on(golden)
    path = golden / name
    path.write_bytes((path.read_bytes() if path.is_file() else b"trial_id,step,epoch,checkpoint\n") + b"\0\0\0\0,1\n")
    done = CliRunner().invoke(main, ["resume", str(golden)])
    assert done.exit_code == 2
    assert str(path) in done.stderr
