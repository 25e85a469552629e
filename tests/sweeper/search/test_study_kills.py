"""After a kill at any time, the study that is built from the event log runs each of its trials exactly once."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from optuna.storages.journal import JournalFileBackend

from search_spaces.builtin import default_space
from sweeper.search.study import format_id
from sweeper.search.warm_start import Prior
from sweeper.store import event_log
from sweeper.store.event_log import EventLog
from sweeper.store.events import TrialEnded, TrialProposed
from tests.sweeper.conftest import METHODS, Proposal, drive, finished_row, open_study, outcome, states

pytestmark = pytest.mark.usefixtures("no_fsync")


class Killed(BaseException):
    """The driver is killed."""


def kill_at(monkeypatch: pytest.MonkeyPatch, number: int, *, share: float) -> None:
    """Raise Killed at write ``number`` to optuna.log or events.jsonl, when ``share`` of its bytes are on disk."""
    append_logs, append_events = JournalFileBackend.append_logs, event_log.append
    writes = itertools.count(1)

    def write_part(path: Path, content: bytes) -> None:
        with path.open("ab") as file:
            file.write(content[: int(share * len(content))])
        raise Killed

    def append(backend: JournalFileBackend, logs: list[dict[str, Any]]) -> None:
        if next(writes) < number:
            append_logs(backend, logs)
            return
        log = Path(backend._file_path)
        log.with_name("optuna.log.lock").touch()  # the lock of the killed driver
        write_part(log, "".join(json.dumps(item, separators=(",", ":")) + "\n" for item in logs).encode())

    def record(path: Path, content: bytes, *, sync: bool) -> None:
        if next(writes) < number:
            append_events(path, content, sync=sync)
        else:
            write_part(path, content)

    monkeypatch.setattr(JournalFileBackend, "append_logs", append)
    monkeypatch.setattr(event_log, "append", record)


SMALL_GRID = default_space(methods=METHODS, options={"gdiff.c": (0.1, 0.9)}, lr=(1e-4,))
BEGIN: dict[str, Any] = {
    "priors": [Prior({"method": "ngdiff", "auto_lr": "off", "lr": 1e-4}, (3.0, 1.0), (), "earlier/00000")] * 2,
    "points": [{"method": "gdiff", "1-gdiff.c": 0.25}],
}
SHAPES: dict[str, dict[str, Any]] = {
    "nsga2, three seeds": {"trials": 6, "sampler": "nsga2", "seeds": (0, 1, 2)},
    "qmc": {"trials": 3, "sampler": "qmc"},
    "tpe, priors and points": {"trials": 4, "sampler": "tpe", "seeds": (0, 1), "begin": BEGIN},
    "tpe in a space of three configurations": {"trials": 3, "space": SMALL_GRID, "sampler": "tpe"},
    "grid with seeds": {"trials": 6, "space": SMALL_GRID, "sampler": "grid", "seeds": (0, 1)},
}


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.6], ids=["before a write", "in the middle of a write"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_killed_at_any_write_and_resumed_the_sweep_has_exactly_its_trials(
    tmp_path: Path, shape: dict[str, Any], share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill at each write to a log: between ask and record, between seeds, between end and tell."""
    seeds = shape.get("seeds", (0,))
    for number in itertools.count(1):
        out = tmp_path / f"killed-{number}"
        first: list[Proposal] = []
        with monkeypatch.context() as patch:
            kill_at(patch, number, share=share)
            try:
                drive(open_study(out, **shape), out, proposed=first)
            except Killed:
                pass
            else:
                assert number > 2 * shape["trials"], "it has not so many writes"
                break
        kept = EventLog(out / "events.jsonl").state
        again = drive(open_study(out, **shape), out)

        state = EventLog(out / "events.jsonl").state
        assert [*state.trials] == [format_id(index) for index in range(shape["trials"])], f"killed at write {number}"
        assert [*kept.ended, *dict(again)] == [*state.ended] == [*state.trials]
        assert states(out)["COMPLETE"] == shape["trials"], f"killed at write {number}"
        configs = {trial_id: config for trial_id, config in first if trial_id in kept.trials}
        assert {**dict(again), **configs} == {**configs, **dict(again)}, "a started trial keeps its configuration"
        runs = {(json.dumps(config | {"seed": None}), config["seed"]) for config in (configs | dict(again)).values()}
        assert (len(runs), {seed for _, seed in runs}) == (shape["trials"], {*seeds}), f"killed at write {number}"
        assert len({configuration for configuration, _ in runs}) == shape["trials"] // len(seeds)


@pytest.mark.parametrize("sampler", ["tpe", "random", "qmc"])  # NSGA-II's children inherit values by design
def test_a_resumed_sampler_does_not_draw_its_first_proposals_again(tmp_path: Path, sampler: str) -> None:
    proposed: list[Proposal] = []
    for trials in (3, 6, 9):
        drive(open_study(tmp_path, sampler=sampler, trials=trials), tmp_path, proposed=proposed)
    assert len({config["lr"] for _, config in proposed}) == 9
    whole = drive(open_study(tmp_path / "whole", sampler=sampler, trials=9))
    assert sampler == "random" or proposed[:4] == whole[:4], "quasi-random points continue where they were"


def test_the_parents_of_a_generation_stay_the_same_after_a_resume(tmp_path: Path) -> None:
    """Trials of the previous generation that end after the choice of the parents do not become parents."""
    study, log = open_study(tmp_path, sampler="nsga2", trials=16), EventLog(tmp_path / "events.jsonl")
    asked = []
    for index in range(8):  # a population of four
        trial_id, config = study.ask() or ("", {})
        log.record(TrialProposed(trial_id, config, study.optuna_data(trial_id)))
        asked.append((trial_id, config))
        if index >= 3:
            late = asked.pop(1)
            row = finished_row(late[1])
            log.record(TrialEnded(late[0], outcome(**row)))
            study.tell(late[0], row)
    attrs = study._study._storage.get_study_system_attrs(study._study._study_id)
    assert any("parent" in name for name in attrs)
    resumed = open_study(tmp_path, sampler="nsga2", trials=16)
    assert resumed._study._storage.get_study_system_attrs(resumed._study._study_id) == attrs
