"""Which epoch represents a trial, compared with hypervolumes computed by hand."""

from __future__ import annotations

import math

import pytest

from search_spaces.constraint import parse_constraint
from sweeper.search.archive import ParetoArchive, Result
from sweeper.settings.objectives import DEFAULT_OBJECTIVES, axes, parse_objectives

AXES = axes(parse_objectives(DEFAULT_OBJECTIVES), 10.0)
"""Both from 0 to 10, so that (f, r) dominates f * (10 - r) hundredths of the box."""


UTILITY = (parse_constraint("utility>=0.7"),)


def epoch(forget: object, retain: object) -> dict[str, object]:
    return {"forget_loss_capped": forget, "retain_loss": retain}


def ended(forget: object, retain: object, status: str = "finished") -> dict[str, object]:
    return epoch(forget, retain) | {"status": status}


def test_the_epoch_that_adds_most_to_the_front_of_the_others_represents_a_trial() -> None:
    attained = ParetoArchive(AXES)
    # Alone: 18, 42 and 27 hundredths. All three are on the front: 9 * 3 + 6 * (7 - 3) + 2 * (3 - 1) hundredths.
    assert attained.add(ended(9, 7), [epoch(2, 1), epoch(6, 3), epoch(9, 7)]) == Result((6.0, 3.0))
    assert attained.trace == [pytest.approx(0.27 + 0.24 + 0.04)]
    attained = ParetoArchive(AXES)
    attained.add(ended(6, 3))
    # Alone (5, 3) is worth 35 and (2, 1) 18; beside (6, 3) the first adds nothing and the second 2 * (3 - 1).
    assert attained.add(ended(5, 3), [epoch(2, 1), epoch(5, 3)]) == Result((2.0, 1.0))
    assert attained.trace == [pytest.approx(0.42), pytest.approx(0.46)]
    attained.add(ended(9, 1))
    assert attained.add(ended(3, 5), [epoch(8, 2), epoch(3, 5)]) == Result((3.0, 5.0)), "of equals the last"
    last = ParetoArchive(AXES, every_epoch=False)
    assert last.add(ended("3", "5.0"), [epoch(8, 2), epoch(3, 5)]) == Result((3.0, 5.0)), "a table has texts"
    assert last.add(ended(3, 5, "stopped"), [epoch(8, 2)]) is None
    assert last.trace == [pytest.approx(0.15)] * 2


@pytest.mark.parametrize("status", ["stopped", "diverged", "failed"])
def test_of_an_unfinished_trial_the_epochs_are_on_the_front_and_the_row_is_not(status: str) -> None:
    attained = ParetoArchive(AXES)
    attained.add(ended(9, 1, status))
    assert attained.trace == [0.0]
    attained.add(ended(9, 1, status), [epoch(5, 5)])
    assert attained.trace[-1] == pytest.approx(0.25)


@pytest.mark.parametrize("bad", [math.nan, math.inf, "", None])
def test_an_epoch_without_a_finite_objective_counts_for_nothing(bad: object) -> None:
    attained = ParetoArchive(AXES)
    row = ended(5.0, bad)
    assert attained.add(row) is None
    assert attained.add(row, [epoch(4, 2), row]) == Result((4.0, 2.0))


@pytest.mark.parametrize(
    ("row", "candidates", "values", "violation", "trace"),
    [
        # One that meets the constraint comes before a better one; only acceptable epochs are on the front.
        ((9, 1, 0.1), [(3, 3, 0.9), (9, 1, 0.1)], (3.0, 3.0), -0.2, 0.21),
        # If none meets it, the one that misses least.
        ((9, 1, 0.1), [(3, 3, 0.5), (9, 1, 0.1)], (3.0, 3.0), 0.2, 0.0),
        # One where it was not measured leaves it to those where it was.
        ((4, 4, 0.8), [(9, 1, None), (4, 4, None)], (4.0, 4.0), -0.1, 0.24),
    ],
    ids=["met", "missed", "not measured"],
)
def test_constraints_decide_before_the_objectives(
    row: tuple[float, float, float],
    candidates: list[tuple[float, float, float | None]],
    values: tuple[float, float],
    violation: float,
    trace: float,
) -> None:
    def with_utility(made: dict[str, object], utility: float | None) -> dict[str, object]:
        return made if utility is None else made | {"utility": utility}

    attained = ParetoArchive(AXES, constraints=UTILITY)
    epochs = [with_utility(epoch(forget, retain), utility) for forget, retain, utility in candidates]
    found = attained.add(with_utility(ended(row[0], row[1]), row[2]), epochs)
    assert found is not None
    assert (found.values, found.violations, found.acceptable) == (values, (pytest.approx(violation),), violation <= 0)
    assert attained.trace == [pytest.approx(trace)]


def test_an_unmeasured_constraint_leaves_no_result_and_a_share_is_of_the_target() -> None:
    assert ParetoArchive(AXES, constraints=UTILITY).add(ended(4, 4)) is None
    attained = ParetoArchive(AXES, constraints=(parse_constraint("utility>=70%"),), baseline={"utility": 0.5})
    found = attained.add(ended(4, 4) | {"utility": 0.4})
    assert found is not None
    assert found.violations == (pytest.approx(0.35 - 0.4),)
