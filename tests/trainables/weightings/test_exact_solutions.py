"""Closed forms against the problem they solve, identities between methods, and guarantees for any two gradients."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.trainables.weightings.gramians import LOSSES, Vector, combined, gramian_between, gramian_of, weigh
from trainables.weightings import Losses, Weights

any_norm = st.floats(-6.0, 6.0).map(lambda exponent: 10.0**exponent)
any_cosine = st.one_of(
    st.floats(-1.0, 1.0).map(lambda c: c if abs(c) > 1e-9 else 0.0), st.floats(-9.0, -1.0).map(lambda e: 10.0**e - 1.0)
)
# Closer to opposed, a Gramian in float64 no longer holds the answer to the digits that the tests below ask for.
resolved_cosine = st.floats(-1.0 + 1e-4, 1.0)
alphas = st.sampled_from([0.1, 0.4, 0.5, 0.9, 1.0, 1.5, 10.0])
vectors = st.tuples(
    arrays(np.float64, 4, elements=st.floats(-1.0, 1.0).map(lambda x: x if abs(x) > 1e-6 else 0.0)),
    st.floats(-6.0, 6.0).map(lambda exponent: 10.0**exponent),
).map(lambda drawn: drawn[0] * drawn[1])


def gradients(rho: float, phi: float, cosine: float) -> tuple[Vector, Vector]:
    """Two vectors of the given lengths at the given angle, in three dimensions with no coordinate zero."""
    u, v = np.array([2.0, 1.0, 2.0]) / 3.0, np.array([1.0, 2.0, -2.0]) / 3.0
    return rho * u, phi * (cosine * u + math.sqrt((1.0 - cosine) * (1.0 + cosine)) * v)


@given(any_norm, any_norm, any_cosine)
def test_pcgrad_paper_projects_the_forget_gradient_whether_or_not_it_conflicts(
    rho: float, phi: float, cosine: float
) -> None:
    g_r, g_f = gradients(rho, phi, cosine)
    expected = g_r + g_f - (g_f @ g_r) / (g_r @ g_r) * g_r
    assert combined(weigh("pcgrad-paper", gramian_between(g_r, g_f)), g_r, g_f) == pytest.approx(
        expected, abs=1e-12 * max(rho, phi)
    )


@given(any_norm, st.floats(-3.0, 3.0), resolved_cosine, alphas)
@example(1.0, 0.0, 0.0, 0.4)
@example(1.0, 0.3, -1.0, 0.4)
@example(1.0, 0.3, -1.0, 1.5)
@example(1.0, math.log10(2.0), -0.5, 0.1)
@example(1.0, 0.0, 1.0, 0.4)
def test_cagrad_attains_the_dual_bound(rho: float, ratio: float, cosine: float, alpha: float) -> None:
    """Any d in the ball has ``min(g_r.d, g_f.d) <= F(w)`` for every w: a d that meets the least F is optimal."""
    phi = min(max(rho * 10.0**ratio, 1e-6), 1e6)
    g_r, g_f = gradients(rho, phi, cosine)
    g0 = (g_r + g_f) / 2.0
    d = combined(weigh("cagrad", gramian_between(g_r, g_f), alpha=alpha), g_r, g_f)
    radius = alpha * np.linalg.norm(g0)
    assert np.linalg.norm(d - g0) <= radius * (1.0 + 1e-6)

    def dual(w: float) -> float:
        g_w = w * g_r + (1.0 - w) * g_f
        return float(g_w @ g0 + radius * np.linalg.norm(g_w))

    low, high = 0.0, 1.0
    for _ in range(120):  # ternary search: F is convex, with a kink where g_w = 0
        left, right = low + (high - low) / 3.0, high - (high - low) / 3.0
        low, high = (low, right) if dual(left) < dual(right) else (left, high)
    bound = min(dual(low), dual(0.0), dual(1.0))
    assert min(g_r @ d, g_f @ d) >= bound - 1e-11 * np.linalg.norm(g0) * max(rho, phi)


@given(any_norm, any_norm, st.floats(-0.999999, 1.0))
def test_nash_mtl_solves_the_bargaining_equation(rho: float, phi: float, cosine: float) -> None:
    """``G w = 1/w``, that is, ``w_i g_i.d = 1`` for both tasks."""
    g_r, g_f = gradients(rho, phi, cosine)
    weights = weigh("nash-mtl", gramian_between(g_r, g_f))
    d = combined(weights, g_r, g_f)
    assert weights.retain * (g_r @ d) == pytest.approx(1.0, rel=1e-8)
    assert weights.forget * (g_f @ d) == pytest.approx(1.0, rel=1e-8)


@pytest.mark.parametrize("distance", [1e-3, 1e-9, 1e-12, 1e-14, 0.0])
def test_nash_mtl_weights_stay_bounded_as_the_gradients_become_opposed(distance: float) -> None:
    weights = weigh("nash-mtl", gramian_of(2.0, 2.0, distance - 1.0))
    expected = 0.5 / math.sqrt(max(distance, 1e-12))
    assert (weights.retain, weights.forget) == pytest.approx((expected, expected), rel=1e-3)


@given(any_norm, any_norm, any_cosine)
def test_aligned_mtl_is_the_balance_transformation_of_the_mean(rho: float, phi: float, cosine: float) -> None:
    """``V sqrt(lmin/L) V^T (1/2, 1/2)`` from the eigenvalues L and vectors V of the Gramian, with 80 digits."""
    gramian = gramian_of(rho, phi, cosine)
    assume(0.0 < abs(gramian.k) < 1.0 - 1e-12)  # axes as eigenvectors, and rank one, have their own tests
    with localcontext() as context:
        context.prec = 80
        a, b, f = Decimal(gramian.rr), Decimal(gramian.rf), Decimal(gramian.ff)
        gap = ((a - f) ** 2 + 4 * b * b).sqrt()
        large, small = (a + f + gap) / 2, (a + f - gap) / 2
        expected = [Decimal(0), Decimal(0)]
        for value in (large, small):
            v = (b, value - a)  # (G - value) v = 0
            share = (v[0] + v[1]) / 2 / (v[0] * v[0] + v[1] * v[1]) * (small / value).sqrt()
            expected = [expected[0] + share * v[0], expected[1] + share * v[1]]
    weights = weigh("aligned-mtl", gramian)
    got = np.array([weights.retain * rho, weights.forget * phi])
    want = np.array([float(expected[0]) * rho, float(expected[1]) * phi])
    assert np.linalg.norm(got - want) <= 1e-15 / (1.0 - abs(gramian.k)) * 20 * np.linalg.norm(want)


@pytest.mark.parametrize(("rho", "phi"), [(1.0, 1.0), (1e6, 1e-6), (1e-6, 3.0)])
def test_aligned_mtl_shortens_the_longer_of_two_orthogonal_gradients(rho: float, phi: float) -> None:
    weights = weigh("aligned-mtl", gramian_of(rho, phi, 0.0))
    short = min(rho, phi)
    assert (weights.retain, weights.forget) == pytest.approx((short / rho / 2, short / phi / 2), rel=1e-14)


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
