"""Faithfulness is the AUC between the pools; robustness is the mean agreement before and after attacks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from analysis.audit.meta_evaluation import faithfulness, robustness


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_faithfulness_is_the_mann_whitney_statistic(rng: np.random.Generator) -> None:
    knowing, ignorant = rng.normal(0.5, 1.0, 15).round(1), rng.normal(0.0, 1.0, 12).round(1)
    expected = stats.mannwhitneyu(knowing, ignorant).statistic / (15 * 12)
    estimate = faithfulness(knowing, ignorant)
    assert estimate.value == pytest.approx(expected)
    assert estimate.low < expected < estimate.high
    assert faithfulness(ignorant, knowing).value == pytest.approx(1 - expected)


def test_a_metric_that_separates_the_pools_is_faithful_in_every_draw() -> None:
    estimate = faithfulness(np.array([0.9, 0.95, 1.0]), np.array([0.1, 0.2, 0.3]))
    assert (estimate.value, estimate.low, estimate.high) == (1.0, 1.0, 1.0)


def test_robustness_is_the_harmonic_mean_over_attacks() -> None:
    before = np.array([0.2, 0.4])
    after = np.array([[0.2, 0.6], [0.4, 0.4]])
    # Rounding: 1 - 0 = 1 for both. Relearning: 1 - 0.4 / 0.8 = 0.5 and 1, so 0.75 on average.
    assert robustness(before, after).value == pytest.approx(2 / (1 / 1.0 + 1 / 0.75))


def test_zero_before_and_after_counts_as_robust_and_a_new_value_as_not() -> None:
    assert robustness(np.zeros(2), np.zeros((2, 1))).value == 1.0
    assert robustness(np.zeros(2), np.ones((2, 1))).value == 0.0
