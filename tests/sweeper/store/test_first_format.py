"""A log in the first format of events.jsonl can be resumed. A real sweep whose scheduler pauses trials wrote the log.

The sweep of ``data/first_format.jsonl`` had six trials. Trial 00002 waited at the rung of epoch 1 until the end.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from search_spaces.parameters import Choice, Number
from search_spaces.space import Space
from sweeper.driver.open_sweep import OpenSweep
from sweeper.search.halving import SuccessiveHalving
from sweeper.settings.objectives import DEFAULT_OBJECTIVES, parse_objectives
from sweeper.store.event_log import EventLog, read_records
from sweeper.store.events import (
    Prior,
    Record,
    SearchStarted,
    SweepEnded,
    TrialCut,
    TrialEnded,
    TrialReported,
    TrialRequeued,
)
from sweeper.store.state import Stage
from sweeper.store.tables import ResultTables
from tests.sweeper.conftest import SETTINGS, bare_sweep, end_trial, outcome, report, running
from trainables.run.reports import Execution

FILE = Path(__file__).with_name("data") / "first_format.jsonl"
SPACE = Space.from_parameters(
    [Choice("method", ("ngdiff",)), Choice("auto_lr", ("off", "on")), Number("lr", 1e-5, 1e-3, log=True)]
)
AXES = tuple(replace(item, low=0.0, high=7.0) for item in parse_objectives(DEFAULT_OBJECTIVES))


def resumed(out: Path, lines: int) -> OpenSweep:
    """Resume the sweep as if it had been killed after this number of lines."""
    (out / "events.jsonl").write_bytes(b"".join(FILE.read_bytes().splitlines(keepends=True)[:lines]))
    log = EventLog(out / "events.jsonl")
    for trial in log.state.trials.values():
        if trial.outcome is None:
            log.record(TrialRequeued(trial.id, trial.last_step))
    settings = replace(SETTINGS, space=SPACE, trials=6)
    halving = SuccessiveHalving(AXES, epochs=3, grace=1, reduction=3, mode="pause")
    return bare_sweep(out, settings, scheduler=halving)


def test_every_value_of_a_report_and_an_outcome_is_read() -> None:
    records = read_records(FILE)
    for line, record in zip(FILE.read_text().splitlines(), records, strict=True):
        row: dict[str, Any] = {}
        payload = json.loads(line)["payload"]
        if isinstance(record.event, TrialReported):
            assert list(record.event.report.updates) == payload["report"].pop("auto_lr", [])
            assert record.event.report.execution is not None
            row = record.event.report.row() | asdict(record.event.report.timers)
            row |= asdict(record.event.report.execution)
        elif isinstance(record.event, TrialEnded):
            row = record.event.outcome.row()
        flat = payload.get("report") or payload.get("outcome") or {}
        assert {name: row[name] for name in flat} == flat
        assert Record.from_line(record.to_line()) == record, "the present format has the same content"
    assert [record.event for record in records if isinstance(record.event, TrialCut)] == [TrialCut("00002", waits=True)]


@pytest.mark.usefixtures("no_fsync")
def test_a_trial_that_waited_at_a_rung_waits_after_a_resume_and_the_next_events_are_typed(out: Path) -> None:
    sweep = resumed(out, lines=18)
    assert [trial.id for trial in sweep.log.state.at_stage(Stage.PAUSED)] == ["00002"]
    assert running(sweep) == "00003"
    report(sweep, "00003", 3, epoch=1.0, forget_loss_capped=0.1, retain_loss=0.5)
    end_trial(sweep, "00003", outcome())
    assert [row["trial_id"] for row in ResultTables(out).trials.read()] == ["00000", "00001", "00003"]
    assert sweep.controller.study.archive.trace == bare_sweep(out, sweep.settings).controller.study.archive.trace


def test_a_resumed_sweep_that_had_ended_has_all_its_results(out: Path) -> None:
    sweep = resumed(out, lines=39)
    assert sweep.remaining_trials == 0
    statuses = {row["trial_id"]: row["status"] for row in ResultTables(out).trials.read()}
    assert statuses == {f"{number:05}": "stopped" if number == 2 else "finished" for number in (0, 1, 3, 4, 5, 2)}
    measured = [row["verbmem"] for row in ResultTables(out).candidates.read() if row["step"] == "3" and row["verbmem"]]
    assert measured == ["0.569116449426047"] * 2


def test_kinds_and_keys_that_the_file_lacks_are_read(tmp_path: Path) -> None:
    """A search with a prior, the last report of a diverged trial, and a report whose model is in object storage."""
    result = {"values": [3.0, "inf"], "violations": [0.5]}
    prior = {"config": {}, "result": result, "origin": "a/0"}
    report = {"step": 2, "epoch": 1.0, "retain_loss": 0.5, "c_t": None, "gpu_share": 0.5, "evaluated": False}
    payloads: list[tuple[str, str, dict[str, Any]]] = [
        (
            "search_started",
            "",
            {"points": [{"lr": 0.1}], "priors": [prior]},
        ),
        ("trial_reported", "00000", {"report": report}),
        ("trial_reported", "00000", {"report": {**report, "step": 3, "evaluated": True, "stored": True}}),
        ("sweep_ended", "", {"status": "interrupted"}),
    ]
    lines = [
        json.dumps({"seq": seq, "time": 1.0, "kind": kind, "trial_id": trial_id, "payload": payload})
        for seq, (kind, trial_id, payload) in enumerate(payloads)
    ]
    (tmp_path / "events.jsonl").write_text("".join(f"{line}\n" for line in lines))
    search, diverged, stored, end = (record.event for record in read_records(tmp_path / "events.jsonl"))
    assert search == SearchStarted(({"lr": 0.1},), (Prior({}, (3.0, math.inf), (0.5,), "a/0"),))
    assert isinstance(diverged, TrialReported)
    assert isinstance(stored, TrialReported)
    assert (diverged.report.status, diverged.report.evaluated, diverged.report.is_stored) == ("diverged", False, False)
    assert (diverged.report.losses, diverged.report.training) == ({"retain_loss": 0.5}, {})
    assert diverged.report.execution == Execution(gpu_share=0.5)
    assert (stored.report.evaluated, stored.report.is_stored) == (True, True)
    assert end == SweepEnded("interrupted")
