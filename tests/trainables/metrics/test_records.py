"""The record of every metric, and the arguments that no metric accepts."""

from __future__ import annotations

import math

import pytest

from trainables.metrics.metric import LANGUAGE, VISION, Metric
from trainables.metrics.registry import DEFAULT_SET, LOSS_METRICS, METRICS, SETS, primary_metrics


@pytest.mark.parametrize("metric", METRICS.values(), ids=list(METRICS))
def test_a_record_fits_in_a_line_its_bounds_hold_its_ideal_and_its_optimised_form_has_a_direction(
    metric: Metric,
) -> None:
    for text in (metric.label, metric.formula, metric.citation):
        assert text.strip()
        assert "\n" not in text
    low, high = metric.bounds(math.log(100))
    assert low < high
    assert metric.ideal is None or low < metric.ideal < high
    assert metric.modalities
    assert set(metric.modalities) <= {LANGUAGE, VISION}
    assert "{" not in metric.axis("token")
    optimised = METRICS[metric.optimised]
    assert optimised.direction is not None
    assert all(map(math.isfinite, optimised.bounds(1.0)))


def test_the_losses_are_measured_always_and_in_no_set() -> None:
    assert LOSS_METRICS == ("forget_loss", "retain_loss", "forget_loss_capped")
    assert not [name for names in SETS.values() for name in names if name in LOSS_METRICS]
    assert set(DEFAULT_SET) < set(SETS["all"])


@pytest.mark.parametrize("modality", [LANGUAGE, VISION])
def test_each_modality_has_one_primary_metric_of_each_set(modality: str) -> None:
    assert [METRICS[name].of for name in primary_metrics(modality)] == ["forget", "retain"]
