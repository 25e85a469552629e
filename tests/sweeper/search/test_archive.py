"""The epoch that represents a trial, compared with hypervolumes computed by hand."""

from __future__ import annotations

from typing import Any

import pytest

from search_spaces.common.front import Criteria, Point
from search_spaces.constraint import parse_constraint
from sweeper.search.archive import ParetoArchive
from sweeper.settings.objectives import DEFAULT_OBJECTIVES, parse_objectives, with_bounds

AXES = with_bounds(parse_objectives(DEFAULT_OBJECTIVES), 10.0)
"""Both objectives range from 0 to 10, so (f, r) dominates f * (10 - r) hundredths of the box."""
UTILITY = (parse_constraint("utility>=0.7"),)


def epoch(forget: object, retain: object, utility: float | None = None) -> dict[str, object]:
    return {"forget_loss_capped": forget, "retain_loss": retain, "utility": utility}


def ended(*values: Any, status: str = "finished") -> dict[str, object]:
    return epoch(*values) | {"status": status}


def test_the_epoch_that_adds_most_to_the_front_of_the_others_represents_a_trial() -> None:
    attained = ParetoArchive(Criteria(AXES))
    # Alone: 18, 42 and 27 hundredths. All three are on the front: 9 * 3 + 6 * (7 - 3) + 2 * (3 - 1) hundredths.
    assert attained.add(ended(9, 7), [epoch(2, 1), epoch(6, 3), epoch(9, 7)]) == Point((6.0, 3.0))
    assert attained.trace == [pytest.approx(0.27 + 0.24 + 0.04)]
    attained = ParetoArchive(Criteria(AXES))
    attained.add(ended(6, 3))
    # Alone (5, 3) is worth 35 and (2, 1) 18; beside (6, 3) the first adds nothing and the second 2 * (3 - 1).
    assert attained.add(ended(5, 3), [epoch(2, 1), epoch(5, 3)]) == Point((2.0, 1.0))
    assert attained.trace == [pytest.approx(0.42), pytest.approx(0.46)]
    attained.add(ended(9, 1))
    assert attained.add(ended(3, 5), [epoch(8, 2), epoch(3, 5)]) == Point((3.0, 5.0)), "of equals the last"
    unfinished = ParetoArchive(Criteria(AXES))
    unfinished.add(ended(9, 1, status="diverged"), [epoch(5, 5)])
    assert unfinished.trace == [pytest.approx(0.25)], "its epochs are on the front, its row is not"
    last = ParetoArchive(Criteria(AXES), every_epoch=False)
    assert last.add(ended("3", "5.0"), [epoch(8, 2), epoch(3, 5)]) == Point((3.0, 5.0)), "a table has texts"
    assert last.add(ended(3, 5, status="stopped"), [epoch(8, 2)]) is None
    assert last.trace == [pytest.approx(0.15)] * 2


@pytest.mark.parametrize(
    ("row", "candidates", "values", "violation", "trace"),
    [
        # An epoch that meets the constraint comes before a better epoch; only acceptable epochs are on the front.
        (ended(9, 1, 0.1), [epoch(3, 3, 0.9), epoch(9, 1, 0.1)], (3.0, 3.0), -0.2, 0.21),
        # If no epoch meets the constraint, the epoch with the smallest violation represents the trial.
        (ended(9, 1, 0.1), [epoch(3, 3, 0.5), epoch(9, 1, 0.1)], (3.0, 3.0), 0.2, 0.0),
        # An epoch without the constraint's metric is not used.
        (ended(4, 4, 0.8), [epoch(9, 1), epoch(4, 4)], (4.0, 4.0), -0.1, 0.24),
    ],
    ids=["met", "missed", "not measured"],
)
def test_constraints_decide_before_the_objectives(
    row: dict[str, object],
    candidates: list[dict[str, object]],
    values: tuple[float, float],
    violation: float,
    trace: float,
) -> None:
    attained = ParetoArchive(Criteria(AXES, UTILITY))
    assert attained.add(row, candidates) == Point(values, (pytest.approx(violation),))
    assert attained.trace == [pytest.approx(trace)]


def test_the_sizes_count_each_of_equal_epochs() -> None:
    attained = ParetoArchive(Criteria(AXES, UTILITY))
    attained.add(ended(6, 3, 0.5), [epoch(6, 3, 0.5), epoch(6, 3, 0.9), epoch(6, 3, 0.5)])
    assert (attained.front, attained.constrained_front) == ((3, pytest.approx(0.42)), (1, pytest.approx(0.42)))
    attained.add(ended(6, 3, 0.9) | {"reused_from": "before/00000"}, [epoch(6, 3, 0.9)])
    assert (attained.front.epochs, attained.constrained_front.epochs) == (4, 2)


def test_an_unmeasured_constraint_leaves_no_result_and_a_share_is_of_the_target() -> None:
    assert ParetoArchive(Criteria(AXES, UTILITY)).add(ended(4, 4)) is None
    attained = ParetoArchive(Criteria(AXES, (parse_constraint("utility>=70%"),), {"utility": 0.5}))
    assert attained.add(ended(4, 4, 0.4)) == Point((4.0, 4.0), (pytest.approx(0.35 - 0.4),))
