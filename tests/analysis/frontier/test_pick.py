"""Which checkpoint each rule takes, and what the error names if no trial qualifies."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from analysis.errors import AnalysisError
from analysis.frontier.pick import CONSTRAINT, KNEE, SUCCESS, Best, NothingQualifies, Pick, pick
from analysis.report.render import say
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable
from search_spaces.constraint import Constraint
from tests.analysis.conftest import MakeSweep, tables_of, trial

Choose = Callable[..., Pick]


@pytest.fixture
def choose(make_sweep: MakeSweep) -> Choose:
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
    assert (found.best, found.distance) == (None, pytest.approx(2**0.5 / 8))


def test_the_constraint_takes_the_best_utility_and_of_equals_the_lower_verbmem(choose: Choose) -> None:
    found = choose(rule=CONSTRAINT, limits=[Constraint("verbmem", "<=", 0.1)])
    assert (found.row["trial_id"], found.eligible) == ("00003", 3)
    assert (found.best, found.value, found.limits) == (Best("utility", "max"), 0.6, (AT_MOST,))
    assert choose(rule=CONSTRAINT, limits=[Constraint("utility", ">=", 0.7)]).row["trial_id"] == "00000"


def test_success_meets_all_thresholds(choose: Choose) -> None:
    """70% of 0.8 is 0.56: 00001 misses it."""
    assert choose(rule=SUCCESS).row["trial_id"] == "00003"
    assert choose(rule=SUCCESS).eligible == 2


def test_limits_narrow_every_rule(choose: Choose) -> None:
    assert choose(rule=KNEE, limits=[Constraint("utility", ">=", 0.5)]).row["trial_id"] == "00002"


AT_LEAST, AT_MOST = Constraint("utility", ">=", 0.7), Constraint("verbmem", "<=", 0.1)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (
            {"rule": CONSTRAINT, "limits": [Constraint("verbmem", "<=", 0.01)]},
            r"verbmem at most 0\.01\b.*lowest.*0\.05",
        ),
        ({"rule": SUCCESS, "limits": [AT_LEAST]}, r"utility.*0\.7\b.*verbmem.*0\.1\b"),
        ({"rule": KNEE, "limits": [AT_LEAST, AT_MOST]}, r"verbmem.*0\.1\b.*lowest.* 1 trial .*utility.*0\.7\b.*0\.5"),
        ({"rule": KNEE, "limits": [AT_MOST, AT_LEAST]}, r"utility.*0\.7\b.*highest.* 3 trials .*verbmem.*0\.1\b.*0\.6"),
    ],
)
def test_an_error_names_the_limit_and_the_nearest_value(choose: Choose, options: dict[str, object], named: str) -> None:
    with pytest.raises(NothingQualifies, match=named):
        choose(**options)


def test_any_column_may_be_the_one_to_be_best_in(choose: Choose) -> None:
    assert choose(best=Best("retain_loss", "min")).row["trial_id"] == "00000"
    found = choose(best=Best("forget_loss", "max"), limits=[Constraint("utility", ">=", 0.5)])
    assert found.row["trial_id"] == "00002"  # of equals the nearest to the ideal, then the first
    assert (found.eligible, found.value) == (3, 5.0)
    assert say("pick.reason", pick=found) == (
        "the highest forget loss (5) among 3 finished trials with utility at least 0.5"
    )
    assert choose(rule=SUCCESS, best=Best("utility", "min")).eligible == 2
    with pytest.raises(NothingQualifies, match="knowmem"):
        choose(best=Best("knowmem", "max"))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"rule": "best"}, "'best'.*knee, constraint, success"),
        ({"rule": CONSTRAINT}, "constraint.*limit"),
        ({"limits": [Constraint("knowmem", "<=", 0.1)]}, "knowmem"),
        ({"limits": [Constraint("knowmem", "<=", 0.1, relative=True)]}, "knowmem"),
    ],
)
def test_mistakes_are_named(choose: Choose, options: dict[str, object], named: str) -> None:
    with pytest.raises(AnalysisError, match=named):
        choose(**options)


@pytest.mark.parametrize(
    ("status", "named"), [("diverged", "1 trial"), ("finished", "objectives")], ids=["none finished", "no objectives"]
)
def test_a_table_without_a_trial_with_objectives_has_no_knee(make_sweep: MakeSweep, status: str, named: str) -> None:
    out = make_sweep([trial("00000", None, None, status=status)])
    with pytest.raises(NothingQualifies, match=named):
        pick(*tables_of(out))
