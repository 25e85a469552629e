"""Which models another model beats."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from analysis.frontier.ranking import beaten_models

NOISE = 0.02
VALUES = st.sampled_from([0.0, 0.015, 0.03, 0.045, 0.06, float("nan")])
SCORES = arrays(np.float64, st.tuples(st.just(3), st.integers(1, 7)), elements=VALUES)


def noise_of(scores: np.ndarray) -> np.ndarray:
    return np.full((len(scores), scores.shape[1], scores.shape[1]), NOISE)


@given(SCORES)
def test_beaten_models_equal_a_direct_reading_of_the_definition(scores: np.ndarray) -> None:
    def beats(one: np.ndarray, other: np.ndarray) -> bool:
        shared = [(a, b) for a, b in zip(one, other, strict=True) if not np.isnan(b)]
        if not shared or any(np.isnan(a) for a, _ in shared):
            return False
        return all(a - b <= NOISE for a, b in shared) and any(b - a > NOISE for a, b in shared)

    models = scores.T
    expected = [any(beats(one, other) for one in models) for other in models]
    found = beaten_models(scores, noise_of(scores)).tolist()
    assert not all(found)
    if not all(expected):
        assert found == expected


def test_of_a_cycle_of_defeats_one_model_stays() -> None:
    scores = -0.019 * np.array([[0.0, 0.0, 0.0], [2.0, -0.9, -0.9], [1.0, 1.0, -1.8]]).T
    assert beaten_models(scores, noise_of(scores)).tolist() == [True, False, True]
