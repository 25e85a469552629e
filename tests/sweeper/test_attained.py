"""Which epoch of a trial the sampler is told of, against hypervolumes worked out by hand."""

from __future__ import annotations

import math

import pytest

from search_spaces.constraint import parse_constraint
from sweeper.attained import Attained, Result
from sweeper.trade_off import DEFAULT_OBJECTIVES, axes, parse_objectives

AXES = axes(parse_objectives(DEFAULT_OBJECTIVES), 10.0)
"""Both from 0 to 10, so that (f, r) dominates f * (10 - r) hundredths of the box."""


def epoch(forget: float, retain: float, **further: object) -> dict[str, object]:
    return {"forget_loss_capped": forget, "retain_loss": retain, **further}


def ended(forget: float, retain: float, status: str = "finished", **further: object) -> dict[str, object]:
    return epoch(forget, retain, status=status, **further)


def test_the_first_trial_is_told_by_its_largest_share_of_the_box() -> None:
    attained = Attained(AXES)
    candidates = [epoch(2, 1), epoch(6, 3), epoch(9, 7)]  # 18, 42 and 27 hundredths
    assert attained.add(ended(9, 7), candidates) == Result((6.0, 3.0))
    # All three are on the front: 9 * 3 + 6 * (7 - 3) + 2 * (3 - 1) hundredths.
    assert attained.trace == [pytest.approx(0.27 + 0.24 + 0.04)]


def test_a_later_trial_is_told_by_what_it_adds_to_the_others_front() -> None:
    attained = Attained(AXES)
    attained.add(ended(6, 3))
    # Alone (5, 3) is worth 35 and (2, 1) 18; beside (6, 3) the first adds nothing and the second 2 * (3 - 1).
    assert attained.add(ended(5, 3), [epoch(2, 1), epoch(5, 3)]) == Result((2.0, 1.0))
    assert attained.trace == [pytest.approx(0.42), pytest.approx(0.46)]


def test_of_epochs_that_add_as_much_the_last_is_told() -> None:
    attained = Attained(AXES)
    attained.add(ended(9, 1))
    assert attained.add(ended(3, 5), [epoch(8, 2), epoch(3, 5)]) == Result((3.0, 5.0))


def test_without_candidates_a_finished_trial_is_told_by_its_row_whatever_came_before() -> None:
    assert Attained(AXES).add(ended(1, 9)) == Result((1.0, 9.0))


def test_text_from_a_table_is_read_as_numbers() -> None:
    row = {"status": "finished", "forget_loss_capped": "2.5", "retain_loss": "1"}
    assert Attained(AXES).add(row) == Result((2.5, 1.0))


@pytest.mark.parametrize("status", ["stopped", "diverged", "failed"])
def test_epochs_of_a_trial_that_did_not_finish_are_on_the_front_its_row_is_not(status: str) -> None:
    attained = Attained(AXES)
    attained.add(ended(9, 1, status))
    assert attained.trace == [0.0]
    attained.add(ended(9, 1, status), [epoch(5, 5)])
    assert attained.trace[-1] == pytest.approx(0.25)


@pytest.mark.parametrize("bad", [math.nan, math.inf, "", None])
def test_an_epoch_without_a_finite_objective_counts_for_nothing(bad: object) -> None:
    attained = Attained(AXES)
    row: dict[str, object] = {"status": "finished", "forget_loss_capped": 5.0, "retain_loss": bad}
    assert attained.add(row) is None
    assert attained.add(row, [epoch(4, 2), row]) == Result((4.0, 2.0))


UTILITY = (parse_constraint("utility>=0.7"),)


def test_an_epoch_that_meets_the_constraints_is_told_before_a_better_one_that_does_not() -> None:
    attained = Attained(AXES, constraints=UTILITY)
    found = attained.add(ended(9, 1, utility=0.1), [epoch(3, 3, utility=0.9), epoch(9, 1, utility=0.1)])
    assert found is not None
    assert found.values == (3.0, 3.0)
    assert found.acceptable
    assert attained.trace == [pytest.approx(0.21)]  # what is not acceptable is not on the front


def test_where_none_meets_them_the_one_that_misses_least_is_told_with_what_it_misses() -> None:
    attained = Attained(AXES, constraints=UTILITY)
    found = attained.add(ended(9, 1, utility=0.1), [epoch(3, 3, utility=0.5), epoch(9, 1, utility=0.1)])
    assert found is not None
    assert (found.values, found.violations) == ((3.0, 3.0), (pytest.approx(0.2),))
    assert attained.trace == [0.0]


def test_an_epoch_at_which_the_constraint_was_not_measured_is_left_to_those_where_it_was() -> None:
    attained = Attained(AXES, constraints=UTILITY)
    found = attained.add(ended(4, 4, utility=0.8), [epoch(9, 1), epoch(4, 4)])
    assert found is not None
    assert found.values == (4.0, 4.0)
    assert Attained(AXES, constraints=UTILITY).add(ended(4, 4)) is None


def test_a_share_is_of_what_no_unlearn_has() -> None:
    attained = Attained(AXES, constraints=(parse_constraint("utility>=70%"),), baseline={"utility": 0.5})
    found = attained.add(ended(4, 4, utility=0.4))
    assert found is not None
    assert found.violations == (pytest.approx(0.35 - 0.4),)
