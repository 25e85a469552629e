"""What a metric's record must have, and what the registry promises beside the suite for plug-ins."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from trainables.metrics.metric import Cost, Metric
from trainables.metrics.registry import METRICS
from trainables.models.weight_changes import WeightChanges


@pytest.mark.parametrize("given", [{}, {"direction": "max", "ideal": 0.5}, {"direction": "maximize"}])
def test_a_record_has_either_a_direction_or_an_ideal(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"metric x: .*direction.*ideal"):
        Metric(name="x", label="x", cost=Cost.FORWARD, formula="0", citation="", measure=lambda scores: 0.0, **given)


@pytest.mark.parametrize("given", [{"direction": "max", "knows": "max"}, {"ideal": 0.5, "knows": "high"}])
def test_the_side_of_models_that_know_is_that_of_an_ideal_value(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="metric x: knows must be max or min, and needs an ideal value"):
        Metric(name="x", label="x", cost=Cost.FORWARD, formula="0", citation="", measure=lambda scores: 0.0, **given)


@pytest.mark.parametrize("threshold", [{}, {"above": 0.5}, {"below": 0.5, "share": 0.5}])
def test_a_threshold_is_a_bound_or_a_share(threshold: dict[Any, float]) -> None:
    common = {"label": "x", "direction": "max", "formula": "0", "citation": "", "measure": lambda scores: 0.0}
    with pytest.raises(ValueError, match=r"metric x: .*threshold.*below.*share"):
        Metric(name="x", cost=Cost.FORWARD, threshold=threshold, **common)


@pytest.mark.parametrize("metric", METRICS.values(), ids=list(METRICS))
def test_a_search_optimises_a_metric_with_a_direction_and_finite_bounds(metric: Metric) -> None:
    optimised = METRICS[metric.optimised]
    assert optimised.direction is not None
    assert all(map(math.isfinite, optimised.bounds(1.0)))


def test_the_distance_of_weights_that_are_not_finite_is_unknown() -> None:
    measure = METRICS["target_distance"].measure
    values = [measure(SimpleNamespace(weight_changes=WeightChanges(d, 0.0))) for d in (0.5, 7.0, math.nan)]
    assert values[:2] == [0.5, 1.0]
    assert math.isnan(values[2])
