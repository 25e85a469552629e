"""Which checkpoint each rule takes, and what is said when none qualifies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.errors import AnalysisError
from analysis.frontier.pick import CONSTRAINT, KNEE, SUCCESS, Best, NothingQualifies, Pick, pick
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable
from search_spaces.constraint import Constraint

Row = dict[str, object]
Choose = Callable[..., Pick]


@pytest.fixture
def choose(make_sweep: Callable[..., Path], trial: Callable[..., Row]) -> Choose:
    rows = [
        trial("00000", 1.0, 0.1, verbmem=0.5, utility=0.79, truth_ratio=0.5),
        trial("00001", 7.0, 1.0, verbmem=0.09, utility=0.4, truth_ratio=0.5),
        trial("00002", 5.0, 0.9, verbmem=0.08, utility=0.6, truth_ratio=0.4),
        trial("00003", 5.0, 0.9, verbmem=0.05, utility=0.6, truth_ratio=0.4),
        trial("00004", 8.0, 0.0, verbmem=0.0, utility=0.8, truth_ratio=0.5, status="stopped"),
    ]
    baseline = {"verbmem": 0.9, "utility": 0.8, "truth_ratio": 0.5}
    out = make_sweep(rows, baseline=baseline)
    sweep = SweepFile.read(out)

    def run(**given: object) -> Pick:
        return pick(TrialTable.read(out), sweep, **given)  # type: ignore[arg-type]

    return run


def test_the_knee_is_nearest_to_the_ideal_corner(choose: Choose) -> None:
    found = choose(rule=KNEE)
    assert found.row["trial_id"] == "00001"  # costs (1/8, 1/8)
    assert "distance 0.177" in found.reason


def test_the_constraint_takes_the_best_utility_and_of_equals_the_lower_verbmem(choose: Choose) -> None:
    found = choose(rule=CONSTRAINT, limits=[Constraint("verbmem", "<=", 0.1)])
    assert (found.row["trial_id"], found.eligible) == ("00003", 3)
    assert "verbmem at most 0.1" in found.reason
    assert choose(rule=CONSTRAINT, limits=[Constraint("utility", ">=", 0.7)]).row["trial_id"] == "00000"


def test_success_meets_all_thresholds(choose: Choose) -> None:
    """70% of 0.8 is 0.56: 00001 misses it."""
    assert choose(rule=SUCCESS).row["trial_id"] == "00003"
    assert choose(rule=SUCCESS).eligible == 2


def test_limits_narrow_every_rule(choose: Choose) -> None:
    assert choose(rule=KNEE, limits=[Constraint("utility", ">=", 0.5)]).row["trial_id"] == "00002"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"rule": CONSTRAINT, "limits": [Constraint("verbmem", "<=", 0.01)]},
            "verbmem at most 0.01; the lowest of all is",
        ),
        ({"rule": SUCCESS, "limits": [Constraint("utility", ">=", 0.7)]}, "meets all thresholds"),
        (
            {"rule": KNEE, "limits": [Constraint("utility", ">=", 0.7), Constraint("verbmem", "<=", 0.1)]},
            "verbmem at most 0.1 among the 1 trial with utility at least 0.7; the lowest of these is 0.5",
        ),
        (
            {"rule": KNEE, "limits": [Constraint("verbmem", "<=", 0.1), Constraint("utility", ">=", 0.7)]},
            "utility at least 0.7 among the 3 trials with verbmem at most 0.1; the highest of these is 0.6",
        ),
    ],
)
def test_when_nothing_qualifies_it_says_what_comes_nearest(
    choose: Choose, given: dict[str, object], words: str
) -> None:
    with pytest.raises(NothingQualifies, match=words):
        choose(**given)


def test_any_column_may_be_the_one_to_be_best_in(choose: Choose) -> None:
    assert choose(best=Best("retain_loss", "min")).row["trial_id"] == "00000"
    found = choose(best=Best("forget_loss", "max"), limits=[Constraint("utility", ">=", 0.5)])
    assert found.row["trial_id"] == "00002"  # of equals the nearest to the ideal, then the first
    assert found.reason == "the highest forget loss (5) among 3 finished trials with utility at least 0.5"
    assert choose(rule=SUCCESS, best=Best("utility", "min")).eligible == 2
    with pytest.raises(NothingQualifies, match="knowmem was not measured among"):
        choose(best=Best("knowmem", "max"))


def test_mistakes_are_named(choose: Choose) -> None:
    with pytest.raises(AnalysisError, match="unknown rule 'best': expected one of knee, constraint, success"):
        choose(rule="best")
    with pytest.raises(AnalysisError, match="needs a limit"):
        choose(rule=CONSTRAINT)
    with pytest.raises(AnalysisError, match="no column knowmem"):
        choose(limits=[Constraint("knowmem", "<=", 0.1)])


def test_a_table_without_finished_trials_has_nothing_to_pick(
    make_sweep: Callable[..., Path], trial: Callable[..., Row]
) -> None:
    out = make_sweep([trial("00000", None, None, status="diverged")])
    with pytest.raises(NothingQualifies, match=r"no trial has finished \(1 trial in the table\)"):
        pick(TrialTable.read(out), SweepFile.read(out))


def test_a_finished_trial_without_objectives_cannot_be_the_knee(
    make_sweep: Callable[..., Path], trial: Callable[..., Row]
) -> None:
    out = make_sweep([trial("00000", None, None)])
    with pytest.raises(NothingQualifies, match="none of the objectives was measured"):
        pick(TrialTable.read(out), SweepFile.read(out))
