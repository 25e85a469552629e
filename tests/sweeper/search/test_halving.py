"""Successive halving: which trials continue at a rung, for any order, scale and values."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence

import pytest

from search_spaces.common.objective import Objective
from sweeper.search.halving import Decision, Mode, Points, SuccessiveHalving, ranks
from sweeper.settings.search import rungs
from sweeper.store.events import OptunaTrial
from sweeper.store.state import Trial
from trainables.run.reports import EpochReport

UNIT = ((1.0, 0.0), (0.0, 1.0))
"""A forget loss to maximise and a retain loss to minimise, both in [0, 1]."""


class Trials:
    """Trials whose reports a scheduler compares. As in a resumed sweep, every decision is made by a new scheduler."""

    def __init__(self, make_scheduler: Callable[[], SuccessiveHalving]) -> None:
        self._make_scheduler = make_scheduler
        self._trials: dict[str, Trial] = {}

    def report(self, trial_id: str, epoch: int, values: Sequence[float | None]) -> Decision:
        trial = self._trials.setdefault(trial_id, Trial(trial_id, {}, OptunaTrial()))
        pairs = zip(("forget", "retain"), values, strict=True)
        losses = {name: value for name, value in pairs if value is not None}
        trial.reports.append(EpochReport(epoch, float(epoch), losses=losses))
        return self._make_scheduler().decide(trial, self._trials.values())

    def promoted(self, *waiting: str) -> str | None:
        trials = [self._trials[trial_id] for trial_id in waiting]
        trial = self._make_scheduler().next_promoted(trials, self._trials.values())
        return None if trial is None else trial.id


def halving(
    mode: Mode = "stop", *, bounds: Sequence[tuple[float, float]] = UNIT, grace: int = 1, reduction: int = 3
) -> Trials:
    objectives = [
        Objective(name=name, column=name, direction="min" if best < worst else "max", low=low, high=high)
        for name, (best, worst) in zip(("forget", "retain"), bounds, strict=True)
        for low, high in [sorted((best, worst))]
    ]
    return Trials(lambda: SuccessiveHalving(objectives, epochs=10, grace=grace, reduction=reduction, mode=mode))


def random_histories(count: int, *, epochs: int = 1) -> Iterator[tuple[random.Random, list[list[tuple[float, float]]]]]:
    """Curves of 1 to 6 trials. The values of every third history are on a coarse grid, so many are equal."""
    for seed in range(count):
        draw = random.Random(seed)
        digits = 1 if seed % 3 == 0 else 12
        sizes = [epochs] * draw.randint(1, 6)
        values = [[(draw.uniform(0.05, 0.9), draw.uniform(0.1, 0.95)) for _ in range(size)] for size in sizes]
        yield draw, [[(round(f, digits), round(r, digits)) for f, r in curve] for curve in values]


def tell(trials: Trials, trial_id: str, curve: Sequence[Sequence[float | None]]) -> Decision:
    """The decision after the last epoch of the curve."""
    return [trials.report(trial_id, epoch, values) for epoch, values in enumerate(curve, start=1)][-1]


def layers_by_definition(sets: Sequence[Points]) -> list[int]:
    """Remove the non-dominated points repeatedly. A set is in the layer of its first removed point."""
    left = {point for points in sets for point in points}
    layer_of: dict[tuple[float, ...], int] = {}
    for layer in itertools.count():
        if not left:
            break
        front = {p for p in left if not any(q != p and all(b <= a for a, b in zip(p, q, strict=True)) for q in left)}
        layer_of |= dict.fromkeys(front, layer)
        left -= front
    return [min(layer_of[point] for point in points) for points in sets]


def test_rungs_are_powers_of_the_reduction_times_the_grace_below_the_epochs() -> None:
    assert rungs(epochs=15, grace=1, reduction=3) == (1, 3, 9)
    assert rungs(epochs=16, grace=2, reduction=2) == (2, 4, 8)
    assert rungs(epochs=9, grace=3, reduction=3) == (3,)
    assert rungs(epochs=4, grace=4, reduction=2) == ()


@pytest.mark.parametrize("epochs", [1, 3])
def test_a_trial_that_dominates_all_others_is_never_stopped(epochs: int) -> None:
    """Checked on random histories. Other published code stops such a trial in half of these histories."""
    for draw, curves in random_histories(100, epochs=epochs):
        scheduler = halving()
        for number, curve in enumerate(curves):
            tell(scheduler, str(number), curve)
        best = (max(f for curve in curves for f, _ in curve), min(r for curve in curves for _, r in curve))
        better = (best[0] + draw.choice((0.0, 0.05)), best[1] - 0.01)
        assert tell(scheduler, "newcomer", [*[(0.0, 1.0)] * (epochs - 1), better]) == "continue"


@pytest.mark.parametrize(("reduction", "pass_of"), [(2, [1, 2, 2, 3, 3, 4]), (3, [1, 1, 2, 2, 2, 3])])
def test_a_trial_stops_if_more_than_one_reduction_of_the_trials_are_better(reduction: int, pass_of: list[int]) -> None:
    """``pass_of`` has the number of trials that pass if a rung has 1, 2, 3, ... trials. Their order does not matter."""
    for count, passing in enumerate(pass_of, start=1):
        curves = [(0.9 - 0.1 * number, 0.1 + 0.1 * number) for number in range(count)]
        for place, last in enumerate(curves):
            scheduler = halving(reduction=reduction)
            for number, values in enumerate([*curves[:place], *curves[place + 1 :]]):
                scheduler.report(str(number), 1, values)
            assert scheduler.report("last", 1, last) == ("continue" if place < passing else "stop")


def test_layers_are_those_of_the_definition_and_equal_sets_have_equal_ranks_in_any_order() -> None:
    for draw, curves in random_histories(60, epochs=3):
        curves += draw.choices(curves, k=3)
        sets: list[Points] = [tuple(sorted((1 - f, r) for f, r in curve)) for curve in curves]
        placed = sorted(zip(ranks(sets), layers_by_definition(sets), strict=True))
        assert [layer for _, layer in placed] == sorted(layer for _, layer in placed)
        by_set = dict(zip(sets, ranks(sets), strict=True))
        for order in (sets, sets[::-1]):
            assert ranks(order) == [by_set[points] for points in order]


def test_within_a_layer_the_next_set_is_the_one_that_adds_most_hypervolume() -> None:
    """Alone, the middle has hypervolume 0.25 and each flank 0.09. The second middle adds almost nothing."""
    middle, beside, left, right = ((0.5, 0.5),), ((0.49, 0.51),), ((0.1, 0.9),), ((0.9, 0.1),)
    assert ranks([left, beside, middle, right]) == [1, 3, 0, 1 + 1]


def test_values_that_are_not_finite_come_last() -> None:
    scheduler = halving()
    for number in range(2):
        assert tell(scheduler, f"bad {number}", [(math.nan, 0.1)]) == "stop"
    assert tell(scheduler, "worst finite", [(0.0, 1.0)]) == "continue"
    assert tell(scheduler, "infinite", [(math.inf, 0.0)]) == "stop"
    assert tell(scheduler, "missing", [(None, 0.0)]) == "stop"


def test_neither_the_scale_nor_the_order_of_the_objectives_matters() -> None:
    for draw, curves in random_histories(60, epochs=3):
        unit = 2.0 ** draw.randint(-20, 20)  # exact in floating point
        schedulers = [halving(), halving(bounds=((unit, 0.0), (0.0, 1.0))), halving(bounds=UNIT[::-1])]
        for number, curve in enumerate(curves):
            variants = [curve, [(unit * f, r) for f, r in curve], [(r, f) for f, r in curve]]
            decisions = [tell(item, str(number), values) for item, values in zip(schedulers, variants, strict=True)]
            # On the coarse grid, two sets may add equal volumes up to rounding.
            is_coarse = all(value == round(value, 1) for values in curves for pair in values for value in pair)
            assert len(set(decisions)) == 1 or is_coarse


def test_a_trial_is_ranked_by_its_best_epochs_if_its_last_is_bad() -> None:
    """With gradient ascent the retain loss rises during forgetting. The earlier epochs still count."""
    scheduler = halving(grace=4, reduction=2)
    tell(scheduler, "slow", [(0.02, 0.01), (0.03, 0.01), (0.04, 0.01), (0.05, 0.01)])
    assert tell(scheduler, "dip", [(0.3, 0.02), (0.7, 0.1), (0.95, 0.3), (0.95, 0.9)]) == "continue"


def test_a_stopped_trial_is_never_promoted() -> None:
    scheduler = halving()
    for number in (5, 3, 4, 9):
        scheduler.report(str(number), 1, (0.1 * number, 0.5))
    assert scheduler.promoted("3", "4") is None


def test_a_paused_trial_continues_once_enough_worse_trials_arrived() -> None:
    scheduler = halving("pause")
    assert scheduler.report("first", 1, (0.9, 0.1)) == "continue"
    assert scheduler.report("second", 1, (0.8, 0.2)) == "pause"
    assert scheduler.promoted("second") is None
    assert [scheduler.report(f"worse {n}", 1, (0.01 * n, 0.9)) for n in range(2)] == ["pause", "pause"]
    assert scheduler.promoted("second", "worse 0", "worse 1") == "second"
    assert scheduler.promoted("worse 0", "worse 1") is None
    assert scheduler.report("second", 2, (0.8, 0.2)) == "continue"


def test_a_trial_that_waits_at_a_rung_of_another_reduction_is_ranked_among_the_trials_that_reached_its_epoch() -> None:
    """A resumed sweep may have another reduction. Epoch 2 is a rung if R is 2, and no rung if R is 3."""
    scheduler = halving("pause")
    for number in range(3):
        for epoch in (1, 2):
            scheduler.report(str(number), epoch, (0.3 * number, 0.5))
    assert [scheduler.promoted("0"), scheduler.promoted("0", "1")] == [None, "1"]
