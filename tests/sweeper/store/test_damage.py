"""A damaged event log is reported with its path, and damaged tables are rebuilt from the log.

Without a log, a sweep is resumed from its tables. A damaged table is reported with its path and not changed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sweeper.driver.open_sweep import OpenSweep
from sweeper.store.events import Kind
from sweeper.store.folder import SweepError, UsageError, begin, check_record
from sweeper.store.import_tables import events_of_tables
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
def sweep(tmp_path: Path) -> OpenSweep:
    """A sweep with trials of four epochs, of which all or every second one are evaluated, and with a stopped trial."""
    out, settings = tmp_path / "out", replace(SETTINGS, trials=4, tracking_uri="http://127.0.0.1:9")
    begin(settings, out)
    sweep = bare_sweep(out, settings)
    for every, status in ((1, "finished"), (2, "finished"), (1, "diverged")):
        trial_id = running(sweep)
        for step in range(1, 5):
            is_evaluated = step % every == 0 and (step < 4 or status == "finished")
            losses = dict.fromkeys(("forget_loss", "forget_loss_capped", "retain_loss"), 4.0 if step != 1 else None)
            report(sweep, trial_id, step, **losses, evaluated=is_evaluated and step > 1)
        sweep.log.state.trials[trial_id].settings = {**sweep.log.state.trials[trial_id].settings, "eval_every": every}
        sweep.controller.end_trial(trial_id, {"status": status, "steps": 4, "epochs_done": 4.0})
    trial_id = running(sweep)
    report(sweep, trial_id, 1, auto_lr=[{"step": 1, "eta": 1e-4}])
    sweep.log.record(Kind.TRIAL_PAUSED, trial_id)
    sweep.controller.end_stopped(trial_id)
    return sweep


@pytest.mark.parametrize("keep", [None, 0, 2, 9], ids=["deleted", "header", "cut", "whole"])
def test_without_a_log_all_tables_are_rebuilt_even_if_candidates_csv_has_lost_epochs(
    sweep: OpenSweep, keep: int | None
) -> None:
    path, events = sweep.out / "candidates.csv", sweep.log.path
    if keep == 9:
        sweep.log.record(Kind.METRICS_MEASURED, "00000", {"step": 2, "metrics": {"verbmem": 0.5}})
    sweep.tables.rewrite(sweep.log.state)
    before = {path: path.read_bytes() for path in sweep.out.glob("*.csv")}
    path.write_bytes(b"".join(before[path].splitlines(keepends=True)[: (keep or 0) + 1]))
    if keep is None:
        path.unlink()
    events.unlink()
    check_record(sweep.out)
    found = events_of_tables(sweep.out)
    assert [event.seq for event in found] == list(range(len(found)))
    events.write_bytes(b"".join(event.to_line() for event in found))
    bare_sweep(sweep.out)
    assert {path: path.read_bytes() for path in before} == before
    assert before[path].count(b"\n") == 1 + 3 + 2 + 2 + 1


def test_without_a_log_a_finished_trial_that_lost_epochs_is_refused(sweep: OpenSweep) -> None:
    path = sweep.out / "history.csv"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:7]))
    sweep.log.path.unlink()
    with pytest.raises(UsageError) as caught:
        check_record(sweep.out)
    assert_names(caught.value, path, "00001")
