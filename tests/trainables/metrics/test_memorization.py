"""Memorisation metrics against values by hand, and closed-form leak probabilities against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from trainables.metrics.leak_probability import leak_probability
from trainables.metrics.memorization import exact_memorization, extraction_strength

RIGHT, WRONG = True, False


@pytest.mark.parametrize(
    ("correct", "strength", "share"),
    [
        ([RIGHT, RIGHT, RIGHT, RIGHT], 1.0, 1.0),  # nothing has to be given
        ([WRONG, RIGHT, RIGHT, RIGHT], 0.75, 0.75),
        ([RIGHT, WRONG, RIGHT, RIGHT], 0.5, 0.75),  # the first two tokens have to be given
        ([WRONG, RIGHT, WRONG, RIGHT], 0.25, 0.5),
        ([RIGHT, RIGHT, RIGHT, WRONG], 0.0, 0.75),  # no prefix gives the last token
        ([WRONG], 0.0, 0.0),
    ],
)
def test_the_strength_is_the_share_behind_the_last_wrong_prediction(
    correct: list[bool], strength: float, share: float
) -> None:
    assert extraction_strength([np.array(correct)]).tolist() == [strength]
    assert exact_memorization([np.array(correct)]).tolist() == [share]


@pytest.mark.parametrize("exponent", [1, 2, 10, 40, 60])
@pytest.mark.parametrize("samples", [1, 100])
def test_the_leak_probability_is_exact_for_likely_and_for_unlikely_answers(exponent: int, samples: int) -> None:
    """For p = 2^-60, the naive formula 1 - (1 - p)^k gives 0 in float64."""
    for p in (Fraction(1, 2**exponent), 1 - Fraction(1, 2**exponent)):
        nll = -math.log1p(float(p - 1)) if p > Fraction(1, 2) else exponent * math.log(2.0)
        expected = float(1 - (1 - p) ** samples)
        assert leak_probability(np.array([nll]), samples)[0] == pytest.approx(expected, rel=1e-12)


def test_certain_and_impossible_answers_have_the_leak_probabilities_1_and_0() -> None:
    assert leak_probability(np.array([0.0, math.inf, 2000.0]), 100).tolist() == [1.0, 0.0, 0.0]
    assert math.isnan(leak_probability(np.array([math.nan]), 100)[0])
