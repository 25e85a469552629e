"""What every metric's record says, whoever wrote it."""

from __future__ import annotations

import math

import pytest

from trainables.metrics.metric import LANGUAGE, VISION, Metric
from trainables.metrics.registry import DEFAULT_SET, LOSS_METRICS, METRICS, SETS, primary_metrics


@pytest.mark.parametrize("metric", METRICS.values(), ids=list(METRICS))
def test_a_record_can_be_shown_in_a_line_and_its_bounds_hold_its_ideal(metric: Metric) -> None:
    for text in (metric.label, metric.formula, metric.citation):
        assert text.strip()
        assert "\n" not in text
    low, high = metric.bounds(math.log(100))
    assert low < high
    assert metric.ideal is None or low < metric.ideal < high
    assert metric.optimised in METRICS
    assert metric.modalities
    assert set(metric.modalities) <= {LANGUAGE, VISION}
    assert "{" not in metric.axis("token")


def test_what_a_search_optimises_has_a_direction_and_finite_bounds() -> None:
    for name in METRICS:
        metric = METRICS[METRICS[name].optimised]
        assert metric.direction is not None
        assert all(map(math.isfinite, metric.bounds(1.0)))


def test_the_losses_are_measured_always_and_in_no_set() -> None:
    assert LOSS_METRICS == ("forget_loss", "retain_loss", "forget_loss_capped")
    assert not [name for names in SETS.values() for name in names if name in LOSS_METRICS]
    assert set(DEFAULT_SET) < set(SETS["all"])


@pytest.mark.parametrize("modality", [LANGUAGE, VISION])
def test_of_either_modality_one_metric_of_each_set_is_shown_first(modality: str) -> None:
    assert [METRICS[name].of for name in primary_metrics(modality)] == ["forget", "retain"]
