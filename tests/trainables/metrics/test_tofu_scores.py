"""TOFU's scores against scipy, permutations and closed forms, and at the limits that a diverged model reaches.

The published logs are in tests/trainables/scoring/test_eval_log.py.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from trainables.metrics.forget_quality import forget_quality
from trainables.metrics.model_utility import Scores, model_utility
from trainables.metrics.probability import normalised_probability
from trainables.metrics.truth_ratio import forget_truth_ratio, log_truth_ratio, retain_truth_ratio, truth_ratio

pytestmark = pytest.mark.filterwarnings("error")
HUGE = (1e3, 1e308, np.inf)


@pytest.mark.parametrize("huge", HUGE)
def test_a_diverged_model_reaches_the_limits_exactly(huge: float) -> None:
    one, several = np.array([1.0]), np.array([huge] * 3)
    hates_the_truth, knows_the_truth = truth_ratio(several[:1], [np.array([1.0, 2.0])]), truth_ratio(one, [several])
    assert (hates_the_truth.tolist(), knows_the_truth.tolist()) == ([np.inf], [0.0])
    assert forget_truth_ratio(hates_the_truth) == forget_truth_ratio(knows_the_truth) == 0.0
    assert (retain_truth_ratio(hates_the_truth), retain_truth_ratio(knows_the_truth)) == (0.0, 1.0)
    assert normalised_probability(np.array([huge, 1.0]), [np.array([1.0, 2.0]), several]).tolist() == [0.0, 1.0]
    if huge < np.inf:
        assert truth_ratio(several[:1], [several]).tolist() == [1.0]
        assert log_truth_ratio(np.array([huge, huge / 2]), np.zeros((2, 1))).tolist() == [huge, huge / 2]
        assert normalised_probability(several[:1], [several]).tolist() == [0.25]


@pytest.mark.parametrize(("right", "wrong"), [(np.nan, 1.0), (1.0, np.nan), (np.inf, np.inf)])
def test_nan_stays_nan(right: float, wrong: float) -> None:
    losses, perturbed = np.array([1.0, right]), np.array([[1.0], [wrong]])
    ratios = truth_ratio(losses, perturbed)
    assert np.isnan(ratios).tolist() == [False, True]
    assert np.isnan(forget_truth_ratio(ratios))
    assert np.isnan(retain_truth_ratio(ratios))
    assert np.isnan(normalised_probability(losses, perturbed)).tolist() == [False, True]


def utility(nine: list[float]) -> float:
    return model_utility(retain=Scores(*nine[:3]), real_authors=Scores(*nine[3:6]), world_facts=Scores(*nine[6:]))


@pytest.mark.parametrize("place", range(9))
def test_one_score_of_0_makes_the_model_useless_and_a_missing_score_stays_missing(place: int) -> None:
    others = [1.0] * 8
    assert utility([*others[:place], 0.0, *others[place:]]) == 0.0
    assert utility([*others[:place], 1e-320, *others[place:]]) == pytest.approx(9e-320, rel=1e-3)
    assert math.isnan(utility([*others[:place], math.nan, *others[place:]]))
    assert math.isnan(utility([math.nan, *[0.0] * 8]))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (np.arange(40), np.arange(40), (1.0, 0.0)),
        (np.arange(40), np.arange(40) + 40, (2 / math.comb(80, 40), 1.0)),  # two of all splits have a gap of 1
        # Seven against seven with a gap of one item: scipy's exact p-value rounds to more than 1.
        ([1, 2, 4, 1, 2, 4, 3], [0, 2, 1, 1, 4, 3, 3], (1.0, 1 / 7)),
        ([1.0, math.nan], [1.0, 2.0], (math.nan, math.nan)),
        ([1.0, 2.0], [math.nan], (math.nan, math.nan)),
    ],
    ids=["itself", "no overlap", "interleaved", "NaN", "NaN in the retain model"],
)
def test_forget_quality_of_special_samples(first: list[float], second: list[float], expected: tuple[float]) -> None:
    assert forget_quality(first, second) == pytest.approx(expected, rel=1e-3, nan_ok=True)
