"""After a kill at any time and after damage to optuna.log, the study runs each of its trials exactly once."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from search_spaces.builtin import default_space
from sweeper.search.archive import Result
from sweeper.search.study import format_id
from sweeper.search.warm_start import Prior
from tests.sweeper.conftest import (
    FINE,
    GRID,
    METHODS,
    SPACE,
    Proposal,
    Row,
    drive,
    finished_row,
    open_study,
    plain_trials,
    runs_by_configuration,
    states,
)

pytestmark = pytest.mark.usefixtures("no_fsync")


class Killed(BaseException):
    """The driver is killed."""


def kill_at(monkeypatch: pytest.MonkeyPatch, number: int, *, share: float) -> None:
    """Raise Killed at write ``number`` to optuna.log (from 1), when ``share`` of its bytes are on disk."""
    append_logs = JournalFileBackend.append_logs
    writes = 0

    def append(backend: JournalFileBackend, logs: list[dict[str, Any]]) -> None:
        nonlocal writes
        writes += 1
        if writes < number:
            append_logs(backend, logs)
            return
        lines = "".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs).encode()
        log = Path(backend._file_path)
        with log.open("ab") as file:
            file.write(lines[: int(share * len(lines))])
        log.with_name("optuna.log.lock").touch()  # the lock of the killed driver
        raise Killed

    monkeypatch.setattr(JournalFileBackend, "append_logs", append)


SMALL_GRID = default_space(methods=METHODS, options={"gdiff.c": (0.1, 0.9)}, lr=(1e-4,))
BEGIN: dict[str, Any] = {
    "priors": [Prior({"method": "ngdiff", "auto_lr": "off", "lr": 1e-4}, Result((3.0, 1.0)), "earlier/00000")] * 2,
    "points": [{"method": "gdiff", "1-gdiff.c": 0.25}],
}
SHAPES: dict[str, dict[str, Any]] = {
    "tpe": {"trials": 5, "sampler": "tpe"},
    "nsga2": {"trials": 5, "sampler": "nsga2"},
    "qmc": {"trials": 3, "sampler": "qmc"},
    "three seeds": {"trials": 6, "seeds": (0, 1, 2)},
    "priors and points": {"trials": 4, "sampler": "tpe", "seeds": (0, 1), "begin": BEGIN},
    "grid with seeds": {"trials": 6, "space": SMALL_GRID, "sampler": "grid", "seeds": (0, 1)},
}


@pytest.mark.parametrize("share", [0.0, 0.6], ids=["before a write", "in the middle of a write"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_killed_at_any_write_and_resumed_the_sweep_has_exactly_its_trials(
    tmp_path: Path, shape: dict[str, Any], share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill at each write to optuna.log: between ask and record, between seeds, between row and tell."""
    seeds = shape.get("seeds", (0,))
    for number in itertools.count(1):
        out = tmp_path / f"killed-{number}"
        out.mkdir()
        rows: dict[str, Row] = {}
        proposed: list[Proposal] = []
        with monkeypatch.context() as patch:
            kill_at(patch, number, share=share)
            try:
                drive(open_study(out, **shape), rows, proposed=proposed)
            except Killed:
                pass
            else:
                assert number > 2 * shape["trials"], "it has not so many writes"
                break
        kept = dict(rows)
        drive(open_study(out, **shape), rows, proposed=proposed)

        assert sorted(rows) == [format_id(index) for index in range(shape["trials"])], f"killed at write {number}"
        assert {trial_id: rows[trial_id] for trial_id in kept} == kept
        assert states(out)["COMPLETE"] == shape["trials"], f"killed at write {number}"
        assert states(out)["RUNNING"] == 0
        configs: dict[str, dict[str, Any]] = {}
        for trial_id, config in proposed:
            assert configs.setdefault(trial_id, config) == config
        found = runs_by_configuration(rows, list(configs.items()))
        assert all(sorted(runs) == list(seeds) for runs in found.values()), f"killed at write {number}: {found}"
        assert len(found) == shape["trials"] // len(seeds)


def test_a_trial_that_was_reported_but_has_no_row_runs_again_and_stays_as_reported(tmp_path: Path) -> None:
    """If the disk was full when the row was written, the rows are authoritative and the trial runs again."""
    study = open_study(tmp_path, trials=2)
    proposal = study.ask()
    assert proposal is not None
    study.tell(proposal[0], FINE)
    assert drive(open_study(tmp_path, trials=2), {})[0] == proposal
    assert [trial.state.name for trial in plain_trials(tmp_path)] == ["COMPLETE", "COMPLETE"]


@pytest.mark.parametrize("sampler", ["tpe", "random"])  # NSGA-II's children inherit values by design
def test_a_resumed_sampler_does_not_draw_its_first_proposals_again(tmp_path: Path, sampler: str) -> None:
    rows: dict[str, Row] = {}
    rates = set()
    for _ in range(3):
        study = open_study(tmp_path, sampler=sampler, trials=9)
        study.restore(rows)
        for proposal in [study.ask() for _ in range(3)]:
            assert proposal is not None
            trial_id, config = proposal
            rates.add(config["lr"])
            rows[trial_id] = finished_row(config)
            study.tell(trial_id, rows[trial_id])
    assert len(rates) == 9


def csv_row(config: Mapping[str, Any]) -> Row:
    """A row with the settings of its trial."""
    return {**config, **finished_row(config)}


@pytest.mark.parametrize("sampler", ["grid", "tpe"])
@pytest.mark.parametrize("seeds", [(0,), (0, 1)], ids=["one seed", "two seeds"])
def test_a_lost_log_is_rebuilt_from_the_rows_and_no_trial_runs_twice(
    tmp_path: Path, sampler: str, seeds: tuple[int, ...]
) -> None:
    space, missing = GRID if sampler == "grid" else SPACE, "00002"
    shape: dict[str, Any] = {"space": space, "sampler": sampler, "trials": 6 * len(seeds), "seeds": seeds}
    rows: dict[str, Row] = {}
    whole = dict(drive(open_study(tmp_path, **shape), rows, row_of=csv_row))
    (tmp_path / "optuna.log").unlink()
    del rows[missing]

    ((trial_id, config),) = drive(open_study(tmp_path, **shape), rows, row_of=csv_row)

    # TPE with one seed has lost the values of the missing trial.
    assert trial_id == missing
    assert (sampler, seeds) == ("tpe", (0,)) or config == whole[missing]
    trials = {format_id(trial.number): trial for trial in plain_trials(tmp_path)}
    assert {trial.state for trial in trials.values()} == {TrialState.COMPLETE}
    kept = {name: trial.params for name, trial in trials.items() if name != missing}
    assert kept == {name: space.params_of(config) for name, config in whole.items() if name != missing}


@pytest.mark.parametrize(
    "damage",
    [
        lambda lines: [*lines[:9], lines[9][:10] + b"\n", *lines[10:]],
        lambda lines: [*lines[:9], bytes(len(lines[9])) + b"\n", *lines[10:]],
        lambda lines: [b'{"op_code": 77}\n'],
    ],
    ids=["a line cut", "a line zeroed", "another program's"],
)
def test_a_damaged_log_is_kept_as_a_copy_and_rebuilt_from_the_rows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[list[bytes]], list[bytes]]
) -> None:
    rows: dict[str, Row] = {}
    whole = drive(open_study(tmp_path, sampler="tpe", trials=6), rows, row_of=csv_row)
    log = tmp_path / "optuna.log"
    log.write_bytes(damaged := b"".join(damage(log.read_bytes().splitlines(keepends=True))))

    ((new, _),) = drive(open_study(tmp_path, sampler="tpe", trials=7), rows, row_of=csv_row)

    assert new == "00006"
    assert [trial.params for trial in plain_trials(tmp_path)[:6]] == [SPACE.params_of(config) for _, config in whole]
    assert ((tmp_path / "optuna.log.damaged").read_bytes(), "optuna.log" in caplog.text) == (damaged, True)
