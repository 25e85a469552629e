"""Closed forms against the problem they solve."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from tests.trainables.weightings.gramians import Vector, combined, gramian_between, gramian_of, weigh
from trainables.weightings import WEIGHTINGS

any_norm = st.floats(-6.0, 6.0).map(lambda exponent: 10.0**exponent)
any_cosine = st.one_of(
    st.floats(-1.0, 1.0).map(lambda c: c if abs(c) > 1e-9 else 0.0), st.floats(-9.0, -1.0).map(lambda e: 10.0**e - 1.0)
)
# Closer to opposed, a Gramian in float64 no longer holds the answer to the digits that the tests below ask for.
resolved_cosine = st.floats(-1.0 + 1e-4, 1.0)
alphas = st.sampled_from([0.1, 0.4, 0.5, 0.9, 1.0, 1.5, 10.0])


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


@given(any_norm, any_norm, any_cosine, st.sampled_from([0.0, 0.1, 1.0, 7.0]), st.booleans())
def test_blur_is_the_nearest_direction_to_one_gradient_at_a_prescribed_slope_of_the_other_loss(
    rho: float, phi: float, cosine: float, gamma: float, upper: bool
) -> None:
    """``min |d - g|^2`` under ``g_low.d = gamma |g_low|^2``, by the linear system of its Lagrangian."""
    g_r, g_f = gradients(rho, phi, cosine)
    g, g_low = (g_f, g_r) if upper else (g_r, g_f)
    unit = g_low / np.linalg.norm(g_low)
    system = np.block([[np.eye(3), unit[:, None]], [unit[None, :], np.zeros((1, 1))]])
    expected = np.linalg.solve(system, np.append(g, gamma * np.linalg.norm(g_low)))[:3]
    found = combined(weigh("blur", gramian_between(g_r, g_f), gamma=gamma, upper=upper), g_r, g_f)
    assert found == pytest.approx(expected, abs=1e-12 * max(rho, phi) * max(gamma, 1.0))


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


@pytest.mark.parametrize(("rho", "phi"), [(1.0, 1.0), (1e6, 1e-6), (1e-6, 3.0)])
def test_aligned_mtl_shortens_the_longer_of_two_orthogonal_gradients(rho: float, phi: float) -> None:
    weights = weigh("aligned-mtl", gramian_of(rho, phi, 0.0))
    short = min(rho, phi)
    assert (weights.retain, weights.forget) == pytest.approx((short / rho / 2, short / phi / 2), rel=1e-14)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_orthograd_is_the_residual_of_least_squares_on_the_examples_gradients_of_each_tensor(alpha: float) -> None:
    """Also where the examples' gradients are dependent or zero, and where a parameter has only one gradient."""
    draws = np.random.default_rng(2)
    rows = [draws.normal(size=(3, 8)), draws.normal(size=(3, 6)), np.zeros((3, 4))]
    rows[1][2] = rows[1][0] - 2.0 * rows[1][1]
    forget = [draws.normal(size=part.shape[1]) for part in rows]
    orthograd = WEIGHTINGS["orthograd"]
    assert orthograd.combine is not None
    retain = [torch.tensor(part.reshape(3, 2, -1)) for part in rows]
    wanted = [torch.tensor(part.reshape(2, -1)) for part in forget]
    found, _ = orthograd.combine([*retain, None, retain[0]], [*wanted, wanted[0], None], {}, {"alpha": alpha})
    for part, g_f, d in zip(rows, forget, found, strict=False):
        residual = g_f - part.T @ np.linalg.lstsq(part.T, g_f, rcond=None)[0]
        assert d is not None
        np.testing.assert_allclose(d.flatten(), alpha * part.sum(axis=0) + (1 - alpha) * residual, rtol=0, atol=1e-12)
    assert found[3] is not None
    assert torch.equal(found[3], (1 - alpha) * wanted[0])
    assert found[4] is not None
    assert torch.equal(found[4], alpha * retain[0].sum(dim=0))
