"""Objectives are parsed from one option, and have the bounds of their metrics."""

from __future__ import annotations

import math

import pytest

from search_spaces.common.objective import Objective
from sweeper.settings.objectives import (
    DEFAULT_OBJECTIVES,
    ObjectiveError,
    parse_objectives,
    with_bounds,
    with_objectives,
)

GUESS = math.log(2048)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("forget_loss:max,accuracy:max", "accuracy"),
        ("forget_loss:max,", "''"),
        ("forget_loss,retain_loss:min", "forget_loss:min or forget_loss:max"),
        ("forget_loss:max:min,retain_loss:min", "forget_loss:max:min"),
        ("forget_loss:max", "two"),
        ("forget_loss:max,forget_loss:min", "twice"),
        # A distance from an ideal value is only minimised; a metric and its distance are the same objective.
        ("privleak:max,utility:max", "privleak:min"),
        ("utility:max,mia_loss:max", "mia_loss:min"),
        ("privleak:min,privleak_distance:min", "twice"),
    ],
)
def test_objectives_that_cannot_be_read_are_named(text: str, named: str) -> None:
    with pytest.raises(ObjectiveError) as caught:
        parse_objectives(text)
    assert named in str(caught.value)


@pytest.mark.parametrize(
    ("text", "unit", "column", "high", "label"),
    [
        ("forget_loss:max", "token", "forget_loss_capped", GUESS, "nats per token"),
        ("retain_loss:min", "image", "retain_loss", GUESS, "nats per image"),
        ("retain_accuracy:max", "image", "retain_accuracy", 1.0, ""),
        # Both sides of an ideal are wrong: without unlearning privleak is -100, with too much of it above 0.
        ("privleak:min", "token", "privleak_distance", 100.0, "distance from 0 ("),
        ("mia_min_k:min", "token", "mia_min_k_distance", 0.5, "distance from 0.5 ("),
    ],
)
def test_bounds_and_labels_are_those_of_the_metric_and_the_analysis_reads_them(
    text: str, unit: str, column: str, high: float, label: str
) -> None:
    objective, _ = parse_objectives(f"{text},utility:max")
    (bounded,) = with_bounds([objective], GUESS, unit=unit)
    read = Objective.from_dict(bounded.to_dict())
    assert read == bounded
    assert (read.column, read.low, read.high) == (column, 0.0, high)
    assert label in read.label
    costs = read.cost([0.0, high / 4, 3 * high]).tolist()
    assert costs == ([0.0, 0.25, 1.0] if text.endswith("min") else [1.0, 0.75, 0.0])


def test_a_distance_is_measured_beside_its_metric() -> None:
    objectives = parse_objectives("privleak:min,utility:max")
    assert with_objectives((), objectives) == ("default", "privleak", "privleak_distance")
    assert with_objectives(("muse",), objectives) == ("muse", "privleak", "privleak_distance", "utility")
    assert with_objectives((), parse_objectives(DEFAULT_OBJECTIVES)) == ()
