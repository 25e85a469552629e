"""Model utility against exact fractions and scipy's harmonic mean."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hmean

from trainables.metrics.model_utility import Scores, model_utility

nine_scores = st.lists(st.floats(1e-6, 1.0), min_size=9, max_size=9)


def utility(nine: list[float]) -> float:
    return model_utility(retain=Scores(*nine[:3]), real_authors=Scores(*nine[3:6]), world_facts=Scores(*nine[6:]))


def test_it_is_the_harmonic_mean() -> None:
    """Of 1, 1/2, ..., 1/9: 9 over the sum of 1 to 9."""
    assert utility([1 / n for n in range(1, 10)]) == pytest.approx(float(Fraction(9, 45)), rel=1e-15)


@given(nine_scores)
def test_it_agrees_with_scipy(nine: list[float]) -> None:
    assert utility(nine) == pytest.approx(hmean(nine), rel=1e-12)


@given(st.data())
def test_all_nine_count_alike(data: st.DataObject) -> None:
    nine = data.draw(nine_scores)
    assert utility(data.draw(st.permutations(nine))) == pytest.approx(utility(nine), rel=1e-14)


@pytest.mark.parametrize("place", range(9))
def test_one_score_of_0_makes_the_model_useless(place: int) -> None:
    assert utility([1.0] * place + [0.0] + [1.0] * (8 - place)) == 0.0
    assert utility([1.0] * place + [1e-320] + [1.0] * (8 - place)) == pytest.approx(9e-320, rel=1e-3)


def test_a_missing_score_stays_missing() -> None:
    assert math.isnan(utility([1.0] * 8 + [math.nan]))
    assert math.isnan(utility([0.0] * 8 + [math.nan]))
