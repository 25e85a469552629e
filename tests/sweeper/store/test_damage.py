"""A damaged event log is reported with its path, and damaged tables are rebuilt from the log.

Without a log, a sweep is resumed from its tables. A damaged table is reported with its path and not changed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sweeper.store.folder import SweepError, UsageError, begin, check_record
from sweeper.store.import_tables import events_of_tables
from sweeper.store.tables import ResultTables
from tests.facts import assert_names
from tests.sweeper.cli.conftest import invoke, problems_of
from tests.sweeper.conftest import SETTINGS, bare_sweep, report, running


def make_resumable(golden: Path) -> None:
    """Replace the golden sweep's sweep.json by one of the current format."""
    (golden / "sweep.json").unlink()
    begin(replace(SETTINGS, trials=200, tracking_uri="http://127.0.0.1:9"), golden)


@pytest.fixture
def log(golden: Path) -> Path:
    """The event log of the golden sweep, in its folder."""
    path = golden / "events.jsonl"
    path.write_bytes(b"".join(event.to_line() for event in events_of_tables(golden)))
    return path


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


@pytest.mark.parametrize(
    ("table", "damage", "command"),
    [
        *itertools.product(["trials.csv"], DAMAGES, ["report", "resume"]),
        *itertools.product(["history.csv", "candidates.csv", "auto_lr.csv"], ["binary"], ["resume"]),
    ],
)
def test_without_a_log_a_damaged_table_is_named_and_left_as_it_is(
    golden: Path, table: str, damage: str, command: str
) -> None:
    if command == "resume":
        make_resumable(golden)
    path = golden / table
    path.write_bytes(damaged := DAMAGES[damage](path.read_bytes() if path.is_file() else b""))
    (problem,) = problems_of(invoke(command, golden))
    assert_names(problem, path)
    assert path.read_bytes() == damaged


@pytest.mark.parametrize("damage", [*DAMAGES, "deleted"])
def test_with_a_log_a_damaged_table_is_rebuilt(
    golden: Path, log: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_resumable(golden)
    bare_sweep(golden)
    before = {path: path.read_bytes() for path in golden.glob("*.csv")}
    for path, content in before.items():
        if damage == "deleted":
            path.unlink()
        else:
            path.write_bytes(DAMAGES[damage](content))

    def accepted(*arguments: object, **more: object) -> None:
        raise SweepError("the command is accepted")

    monkeypatch.setattr("sweeper.sweep.run", accepted)
    assert_names(invoke("resume", golden).stderr, "the command is accepted")
    bare_sweep(golden)
    assert {path: path.read_bytes() for path in golden.glob("*.csv")} == before


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_log_is_refused_with_its_line(golden: Path, log: Path, damage: str) -> None:
    make_resumable(golden)
    before = log.read_bytes()
    log.write_bytes(damaged := DAMAGES[damage](before))
    (problem,) = problems_of(invoke("resume", golden, "--trials", "500"))
    pairs = zip(before.split(b"\n"), damaged.split(b"\n"), strict=False)
    assert_names(problem, log, f"line {next(n for n, (old, new) in enumerate(pairs, start=1) if old != new)} ")
    assert log.read_bytes() == damaged


@pytest.fixture
def without_log(tmp_path: Path) -> Path:
    """A sweep without an event log. Its trials have four epochs; all of them or every second one are evaluated."""
    out = tmp_path / "out"
    begin(replace(SETTINGS, tracking_uri="http://127.0.0.1:9"), out)
    sweep = bare_sweep(out)
    for every, status in ((1, "finished"), (2, "finished"), (1, "diverged")):
        trial_id = running(sweep)
        for step in range(1, 5):
            is_evaluated = step % every == 0 and (step < 4 or status == "finished")
            losses = dict.fromkeys(("forget_loss", "forget_loss_capped", "retain_loss"), 4.0 if step != 1 else None)
            report(sweep, trial_id, step, **losses, evaluated=is_evaluated and step > 1)
        sweep.log.state.trials[trial_id].settings = {**sweep.log.state.trials[trial_id].settings, "eval_every": every}
        sweep.controller.end_trial(trial_id, {"status": status, "steps": 4, "epochs_done": 4.0})
    sweep.log.path.unlink()
    return out


@pytest.mark.parametrize("keep", [None, 0, 2], ids=["deleted", "header", "cut"])
def test_without_a_log_epochs_that_candidates_csv_has_lost_are_rebuilt(without_log: Path, keep: int | None) -> None:
    path = without_log / "candidates.csv"
    before = ResultTables(without_log).candidates.read()
    if keep is None:
        path.unlink()
    else:
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[: keep + 1]))
    check_record(without_log)
    (without_log / "events.jsonl").write_bytes(b"".join(event.to_line() for event in events_of_tables(without_log)))
    bare_sweep(without_log)
    assert len(before) == 3 + 2 + 2
    assert ResultTables(without_log).candidates.read() == before


def test_without_a_log_a_finished_trial_that_lost_epochs_is_refused(without_log: Path) -> None:
    path = without_log / "history.csv"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:7]))
    with pytest.raises(UsageError) as caught:
        check_record(without_log)
    assert_names(caught.value, path, "00001")
