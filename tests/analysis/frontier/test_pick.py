"""The checkpoint that each rule selects, and the errors if no trial qualifies."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from analysis.errors import AnalysisError
from analysis.frontier.pick import CONSTRAINT, KNEE, SUCCESS, Best, NothingQualifies, Pick, pick
from search_spaces.constraint import parse_constraint
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
    tables = tables_of(make_sweep(rows, baseline={"verbmem": 0.9, "utility": 0.8, "truth_ratio": 0.5}))
    return partial(pick, *tables)


AT_LEAST, AT_MOST, HALF = map(parse_constraint, ("utility>=0.7", "verbmem<=0.1", "utility>=0.5"))


@pytest.mark.parametrize(
    ("options", "trial_id", "eligible"),
    [
        ({}, "00001", 4),  # costs (1/8, 1/8)
        ({"limits": [HALF]}, "00002", 3),
        # Of models with equal utility, the model with the lower verbmem.
        ({"rule": CONSTRAINT, "limits": [AT_MOST]}, "00003", 3),
        # 70% of 0.8 is 0.56: 00001 misses it.
        ({"rule": SUCCESS}, "00003", 2),
        ({"best": Best("retain_loss", "min")}, "00000", 4),
        # Of equal models, the nearest to the ideal corner, then the first.
        ({"best": Best("forget_loss", "max"), "limits": [HALF]}, "00002", 3),
    ],
)
def test_each_rule_takes_its_best_model(
    choose: Choose, options: dict[str, object], trial_id: str, eligible: int
) -> None:
    found = choose(**options)
    assert (found.row["trial_id"], found.eligible) == (trial_id, eligible)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"rule": CONSTRAINT, "limits": [parse_constraint("verbmem<=0.01")]}, r"at most 0\.01\b.*lowest.*0\.05"),
        ({"rule": SUCCESS, "limits": [AT_LEAST]}, r"utility.*0\.7\b.*verbmem.*0\.1\b"),
        ({"rule": KNEE, "limits": [AT_MOST, AT_LEAST]}, r"utility.*0\.7\b.*highest.* 3 trials .*verbmem.*0\.1\b.*0\.6"),
        ({"best": Best("knowmem", "max")}, "column knowmem$"),
        ({"best": Best("knowmen", "max")}, "column knowmen: .*did you mean 'knowmem'"),
        ({"limits": [parse_constraint("knowmem<=0.1")]}, "knowmem"),
        ({"limits": [parse_constraint("retain_loss<=10%")]}, "retain_loss.*target"),
    ],
)
def test_an_error_names_the_limit_and_the_nearest_value(choose: Choose, options: dict[str, object], named: str) -> None:
    with pytest.raises(AnalysisError, match=named):
        choose(**options)


@pytest.mark.parametrize(
    ("status", "named"),
    [("diverged", "1 trial"), ("finished", "each objective")],
    ids=["none finished", "no objectives"],
)
def test_a_table_without_a_trial_with_objectives_has_no_knee(make_sweep: MakeSweep, status: str, named: str) -> None:
    out = make_sweep([trial("00000", None, None, status=status)])
    with pytest.raises(NothingQualifies, match=named):
        pick(*tables_of(out))
