"""Identities between methods, and guarantees for any two gradients."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.trainables.weightings.gramians import LOSSES, Vector, combined, gramian_between, gramian_of, weigh
from trainables.weightings import Losses, Weights

vectors = st.tuples(
    arrays(np.float64, 4, elements=st.floats(-1.0, 1.0).map(lambda x: x if abs(x) > 1e-6 else 0.0)),
    st.floats(-6.0, 6.0).map(lambda exponent: 10.0**exponent),
).map(lambda drawn: drawn[0] * drawn[1])


@pytest.mark.parametrize("cosine", [-0.9, -0.3, 0.5])
def test_cagrad_lies_between_the_mean_gradient_and_mgda(cosine: float) -> None:
    gramian = gramian_of(1.0, 1.7, cosine)
    assert weigh("cagrad", gramian, alpha=0.0) == Weights(0.5, 0.5)
    assert weigh("cagrad", gramian, alpha=1e6).c == pytest.approx(weigh("mgda", gramian).c, abs=1e-5)


@pytest.mark.parametrize("name", ["ngdiff", "pcgrad", "upgrad", "dualproj", "mgda", "imtl-g", "nash-mtl"])
@given(g_r=vectors, g_f=vectors)
def test_methods_made_for_it_conflict_with_neither_gradient(name: str, g_r: Vector, g_f: Vector) -> None:
    """For ngdiff, this is Lemma 2 of its paper."""
    weights = weigh(name, gramian_between(g_r, g_f))
    contributions = abs(weights.retain) * np.linalg.norm(g_r) + abs(weights.forget) * np.linalg.norm(g_f)
    d = combined(weights, g_r, g_f)
    for g in (g_r, g_f):
        assert g @ d >= -1e-13 * contributions * np.linalg.norm(g)


@pytest.mark.parametrize(
    ("name", "losses", "options", "expected"),
    [
        ("lossnorm", Losses(4.0, -0.5), {}, Weights(0.25, 2.0)),
        ("lossnorm", Losses(0.0, -4.0), {}, Weights(0.0, 0.25)),
        ("gd", LOSSES, {}, Weights(1.0, 0.0)),
        ("ga", LOSSES, {}, Weights(0.0, 1.0)),
        *(("gdiff", LOSSES, {"c": c}, Weights(c, 1.0 - c)) for c in (0.0, 0.75, 1.0)),
    ],
)
def test_weights_of_losses_by_hand(name: str, losses: Losses, options: dict[str, float], expected: Weights) -> None:
    assert weigh(name, gramian_of(1.0, 1.0, 0.0), losses, **options) == expected
