"""``--keep-checkpoints``: which models are deleted first, and which are never deleted."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

from search_spaces.common.front import Criteria
from search_spaces.common.objective import Objective
from search_spaces.constraint import parse_constraint
from sweeper.followers import checkpoint_limit
from sweeper.followers.checkpoint_limit import CheckpointLimit, answer_folders
from sweeper.followers.checkpoints import CheckpointManager
from sweeper.settings.keep import Keep, KeepError, parse_keep
from sweeper.store.events import Event, Phase, Record, TrialEnded, TrialProposed, TrialReported
from sweeper.store.state import SweepState
from tests.sweeper.conftest import OpenSweep, bare_sweep, end_trial, report, running
from trainables.run.reports import EpochReport, Outcome, Status
from trainables.storage import Storage

GAIN = Objective(name="gain", column="gain", direction="max", low=0.0, high=10.0)
LOSS = Objective(name="loss", column="loss", direction="min", low=0.0, high=10.0)
LIMIT = 3
TRIALS = {  # gain and loss of the last epoch; the ideal corner is (10, 0)
    "a": (9.0, 9.0),
    "b": (5.0, 4.0),
    "c": (4.0, 1.0),
    "d": (1.0, 0.5),
    "e": (0.5, 5.0),  # beaten by b
}
"""The front is a, b, c, d. The distance from the ideal corner is smallest for c and b, and then for d and a."""


class Driver:
    """Records events for a checkpoint manager with a limit."""

    def __init__(self, out: Path, *constraints: str) -> None:
        (out / "checkpoints").mkdir()
        self.out = out
        self.criteria = Criteria((GAIN, LOSS), tuple(map(parse_constraint, constraints)))
        self.records: list[Record] = []
        self.restart()

    def restart(self) -> None:
        limit = CheckpointLimit(LIMIT, self.criteria)
        self.manager = CheckpointManager(
            self.out, self.criteria, states=Storage((self.out / "ray").as_uri()), limit=limit
        )
        self.state = SweepState()
        for record in self.records:
            self.state.apply(record)
        self.manager.catch_up(self.state)
        self.manager.flush(self.state)

    def record(self, event: Event) -> None:
        self.records.append(Record.new(len(self.records), event))
        self.state.apply(self.records[-1])
        self.manager.apply(event, self.state)
        self.manager.flush(self.state)

    def run(self, name: str, *, phase: Phase = Phase.SEARCH, **metrics: float) -> None:
        gain, loss = TRIALS[name]
        folder = f"checkpoints/{name}"
        self.record(TrialProposed(name, {}, phase=phase))
        self.record(TrialReported(name, EpochReport(1, 1.0, losses={"gain": gain, "loss": loss}, metrics=metrics)))
        (self.out / folder).mkdir()
        self.record(TrialEnded(name, Outcome(status=Status.FINISHED, checkpoint=folder)))

    @property
    def stored(self) -> str:
        return "".join(sorted(path.name for path in (self.out / "checkpoints").iterdir()))


@pytest.fixture(autouse=True)
def answer(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders of the answer and its runners-up, which a test may change."""
    folders: list[str] = []
    monkeypatch.setattr(checkpoint_limit, "answer_folders", lambda out: frozenset(folders))
    return folders


@pytest.mark.parametrize("order", list(permutations("abcde"))[::17])
def test_models_off_the_front_and_far_from_the_ideal_corner_go_first_in_any_order(
    tmp_path: Path, order: tuple[str, ...]
) -> None:
    driver = Driver(tmp_path)
    for name in order:
        driver.run(name)
        assert len(driver.stored) <= LIMIT
        driver.restart()
    assert driver.stored == "bcd"


def test_the_answer_and_its_runners_up_are_never_deleted(tmp_path: Path, answer: list[str]) -> None:
    driver = Driver(tmp_path)
    answer += ["checkpoints/e", "checkpoints/a"]
    for name in "eabcd":
        driver.run(name)
    assert driver.stored == "ace"


def test_models_that_meet_the_constraints_stay(tmp_path: Path) -> None:
    driver = Driver(tmp_path, "utility>=0.5")
    for name, utility in zip("abcd", (0.9, 0.1, 0.1, 0.1), strict=True):
        driver.run(name, utility=utility)
    assert driver.stored == "abc"


def test_models_of_confirm_trials_go_first(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.run("c", phase=Phase.CONFIRM)
    for name in "abd":
        driver.run(name)
    assert driver.stored == "abd"


def test_a_model_that_a_worker_has_just_saved_is_not_deleted(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    (tmp_path / "checkpoints" / "x").mkdir()
    for name in "abcde":
        driver.run(name)
    assert driver.stored == "bcdx"


def test_the_cell_of_a_deleted_model_is_empty(out: Path) -> None:
    sweep: OpenSweep = bare_sweep(out, limit=1)
    names = []
    for loss in (0.5, 0.4, 0.3):
        names.append(running(sweep))
        report(sweep, names[-1], 1, forget_loss_capped=1.0, retain_loss=loss)
        folder = f"checkpoints/{names[-1]}"
        (out / folder).mkdir(parents=True)
        end_trial(sweep, names[-1], Outcome(status=Status.FINISHED, checkpoint=folder))
    sweep.tables.rewrite(sweep.log.state)
    cells = {row["trial_id"]: row["checkpoint"] for row in sweep.tables._tables.trials.read()}
    assert cells == {names[0]: "", names[1]: "", names[2]: f"checkpoints/{names[2]}"}


def test_the_answer_comes_from_the_tables(golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    folders = answer_folders(golden)
    assert len(folders) == 3
    assert all(folder.startswith("checkpoints/") for folder in folders)


@pytest.mark.parametrize(
    ("text", "expected"), [("3", Keep(models=3)), ("40GB", Keep(bytes=4e10)), ("1.5 tb", Keep(bytes=1.5e12))]
)
def test_a_number_or_a_size_is_given(text: str, expected: Keep) -> None:
    assert parse_keep(text) == expected
    assert parse_keep(None) is None


@pytest.mark.parametrize("text", ["2", "0", "-5", "many", "4XB", "0GB", ""])
def test_other_limits_are_refused(text: str) -> None:
    with pytest.raises(KeepError, match="at least 3"):
        parse_keep(text)


def test_a_size_must_hold_the_answer_and_its_runners_up() -> None:
    assert Keep(bytes=40e9).count(int(5.7e9)) == 7
    with pytest.raises(KeepError, match="expected at least 17 GB"):
        Keep(bytes=10e9).count(int(5.7e9))
