"""Probabilities against scipy's softmax and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from trainables.metrics.probability import normalised_probability, probability

losses = st.floats(0.0, 1e5)


def test_the_probability_is_that_which_has_this_loss() -> None:
    assert probability(-np.log([1.0, 0.5, 1e-9])) == pytest.approx([1.0, 0.5, 1e-9], rel=1e-14)
    assert probability([1e4, 1e308, np.inf]).tolist() == [0.0, 0.0, 0.0]


@given(right=losses, wrong=st.lists(losses, min_size=1, max_size=5))
def test_the_normalised_probability_is_the_softmax_over_the_answers(right: float, wrong: list[float]) -> None:
    expected = softmax(-np.array([right, *wrong]))[0]
    assert normalised_probability([right], [wrong])[0] == pytest.approx(expected, rel=1e-12, abs=1e-300)


def test_items_keep_their_order_and_may_have_different_numbers_of_wrong_answers() -> None:
    found = normalised_probability(-np.log([0.5, 0.2]), [-np.log([0.1, 0.4]), -np.log([0.6])])
    assert found == pytest.approx([0.5, 0.25], rel=1e-14)


@pytest.mark.parametrize("huge", [1e3, 1e38, 1e308])
def test_a_diverged_model_guesses_between_equals_and_reaches_the_limits_exactly(huge: float) -> None:
    assert normalised_probability([huge], [[huge, huge, huge]]).tolist() == [0.25]
    for extreme in (huge, np.inf):
        assert normalised_probability([extreme, 1.0], [[1.0, 2.0], [extreme, extreme]]).tolist() == [0.0, 1.0]


def test_nan_stays_nan() -> None:
    found = normalised_probability([np.nan, 1.0, np.inf, 1.0], [[1.0], [np.nan], [np.inf], [1.0]])
    assert np.isnan(found).tolist() == [True, True, True, False]
