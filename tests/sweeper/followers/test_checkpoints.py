"""Exactly the checkpoints on the front are kept, after any order of reports, requeues and kills."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces.common import durable
from search_spaces.common.front import Criteria, Point
from search_spaces.common.objective import Objective
from search_spaces.constraint import parse_constraint
from sweeper.followers.checkpoints import CheckpointManager
from sweeper.store.events import Event, MetricsMeasured, Record, TrialEnded, TrialProposed, TrialReported, TrialRequeued
from sweeper.store.state import SweepState
from trainables.run.reports import EpochReport, Outcome, Status
from trainables.storage import Storage
from trainables.worker.candidates import candidate_folder, read_front

GAIN = Objective(name="gain", column="gain", direction="max")
LOSS = Objective(name="loss", column="loss", direction="min")
CRITERIA = Criteria((GAIN, LOSS), (parse_constraint("utility>=2"),))
NAMES = ("gain", "loss", "utility")
Values = tuple[float | None, float | None, float | None]


@dataclass
class Driver:
    """Records the events of a sweep in memory, for a checkpoint manager that may be killed."""

    out: Path
    records: list[Record] = field(default_factory=list)
    manager: CheckpointManager = field(init=False)
    state: SweepState = field(init=False)

    def __post_init__(self) -> None:
        (self.out / "checkpoints").mkdir(exist_ok=True)
        self.restart()
        for trial_id in "abc":
            self.record(TrialProposed(trial_id, {}))

    def record(self, event: Event) -> None:
        self.records.append(Record.new(len(self.records), event))
        self.state.apply(self.records[-1])
        self.manager.apply(event, self.state)
        self.manager.flush(self.state)

    def restart(self) -> None:
        self.manager = CheckpointManager(self.out, CRITERIA, states=Storage((self.out / "ray").as_uri()))
        self.state = SweepState()
        for record in self.records:
            self.state.apply(record)
        self.manager.catch_up(self.state)
        self.manager.flush(self.state)

    def report(self, trial_id: str, epoch: int, *values: float | None) -> None:
        losses = {name: value for name, value in zip(NAMES, values, strict=False) if value is not None}
        self.record(TrialReported(trial_id, EpochReport(epoch, float(epoch), losses=losses)))

    def save(self, trial_id: str, epoch: int) -> str:
        folder = candidate_folder(trial_id, epoch)
        (self.out / folder).mkdir(parents=True, exist_ok=True)
        return folder

    def kept(self) -> set[str]:
        return {str(path.relative_to(self.out)) for path in (self.out / "checkpoints").iterdir()}


def point(values: Values) -> Point:
    return CRITERIA.point(dict(zip(NAMES, values, strict=True)))


def kept_by_definition(reported: dict[tuple[str, int], Values]) -> set[tuple[str, int]]:
    """The front of all epochs, and the front of the epochs with a utility of at least 2."""
    kept = set()
    for least in (None, 2.0):
        known = {
            key: np.array([-gain, loss])
            for key, (gain, loss, utility) in reported.items()
            if gain is not None and loss is not None and (least is None or (utility is not None and utility >= least))
        }
        kept |= {key for key, a in known.items() if not any((b <= a).all() and (b < a).any() for b in known.values())}
    return kept


NUMBERS = st.one_of(st.none(), st.integers(0, 4).map(float))
REPORTS = st.tuples(st.sampled_from("abc"), NUMBERS, NUMBERS, NUMBERS, st.booleans(), st.integers(0, 4).map(bool))
REQUEUES = st.tuples(st.sampled_from("abc"), st.integers(-1, 4))


@given(steps=st.lists(st.one_of(REPORTS, REPORTS, REQUEUES), max_size=25), kills=st.sets(st.integers(0, 24)))
def test_the_models_kept_are_those_of_the_front_after_any_order_of_reports_requeues_and_kills(
    steps: list[tuple[Any, ...]], kills: set[int]
) -> None:
    """A worker that knows the front saves no dominated epoch. A worker that read an older front may save one."""
    with tempfile.TemporaryDirectory() as folder:
        driver, reported = Driver(Path(folder)), dict[tuple[str, int], Values]()
        (driver.out / "checkpoints" / "a").mkdir()  # the last model of a finished trial
        saved = driver.kept()
        for number, (trial_id, *content) in enumerate(steps):
            if len(content) == 1:
                driver.record(TrialRequeued(trial_id, content[0]))
                reported = {key: item for key, item in reported.items() if key[0] != trial_id or key[1] <= content[0]}
            else:
                *measured, knows_front, is_evaluated = content
                epoch = 1 + max((key[1] for key in reported if key[0] == trial_id), default=0)
                values = tuple(measured) if is_evaluated else (None, None, None)
                known = read_front(driver.out) if knows_front else []
                if is_evaluated and CRITERIA.kept([*known, point(values)])[-1]:
                    saved.add(driver.save(trial_id, epoch))
                reported[trial_id, epoch] = values
                driver.report(trial_id, epoch, *values)
            if number in kills:
                driver.restart()
            kept = kept_by_definition(reported)
            saved &= {candidate_folder(*key) for key in kept} | {"checkpoints/a"}
            assert driver.manager.folders == {candidate_folder(*key) for key in kept}
            assert driver.kept() == saved
            assert {item.values for item in read_front(driver.out)} == {reported[key][:2] for key in kept}


@pytest.mark.parametrize("value", [None, "", "nan", float("inf"), "text"])
def test_an_epoch_without_a_finite_objective_is_no_candidate(value: object) -> None:
    assert CRITERIA.kept([CRITERIA.point({"gain": value, "loss": 1.0, "utility": 3.0})]).tolist() == [False]
    assert CRITERIA.point({"gain": "2.5", "loss": 1.0, "utility": 1.5}) == Point((2.5, 1.0), (0.5,))


def test_a_metric_that_is_measured_after_the_search_puts_an_epoch_on_the_front_under_the_constraints(
    tmp_path: Path,
) -> None:
    driver = Driver(tmp_path)
    driver.report("a", 1, 1.0, 1.0)
    driver.record(MetricsMeasured("a", 1, {"utility": 2.5}))
    driver.report("b", 1, 2.0, 0.5, 0.0)
    assert driver.manager.folders == {"checkpoints/a-epoch-1", "checkpoints/b-epoch-1"}
    driver.restart()
    assert driver.manager.folders == {"checkpoints/a-epoch-1", "checkpoints/b-epoch-1"}


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_deletion_that_a_kill_or_a_full_disk_stopped_is_completed_by_the_next_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    driver = Driver(tmp_path)
    driver.save("a", 1)
    driver.report("a", 1, 1.0, 1.0)
    with monkeypatch.context() as patch:
        if is_killed:  # between the renaming and the deletion
            patch.setattr(durable, "_remove", lambda path: None)
        else:
            for place, name in ((Path, "rename"), (os, "replace")):
                patch.setattr(place, name, Mock(side_effect=OSError(28, "No space left on device")))
        driver.report("a", 2, 2.0, 0.5)
    assert driver.manager.folders == {"checkpoints/a-epoch-2"}
    (left,) = driver.kept()
    assert Path(left).name.startswith(".a-epoch-1." if is_killed else "a-epoch-1")
    (tmp_path / "checkpoints" / ".b-epoch-3.0123abcd").mkdir()  # a worker was killed while it saved
    driver.restart()
    assert driver.kept() == set()


@pytest.mark.parametrize(
    ("outcome", "is_deleted"),
    [
        (Outcome(status=Status.FINISHED), True),
        (Outcome(status=Status.FAILED, error="ValueError: no"), True),
        (Outcome(status=Status.FAILED, error="The actor died because its node has died."), False),
    ],
)
def test_the_saved_states_of_a_trial_are_deleted_when_it_has_a_result(
    tmp_path: Path, outcome: Outcome, is_deleted: bool
) -> None:
    driver = Driver(tmp_path)
    own, other = (tmp_path / "ray" / f"attempt-{n}" / name / "checkpoint_000000" for n, name in ((1, "a"), (2, "b")))
    for folder in (own, other):
        folder.mkdir(parents=True)
    driver.record(TrialEnded("a", outcome))
    assert (own.is_dir(), other.is_dir()) == (not is_deleted, True)
