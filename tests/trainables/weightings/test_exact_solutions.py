"""Each closed form against the problem it solves: explicit vectors, optimality conditions, or a numerical solver."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from search_spaces.fields import defaults
from trainables.weightings import WEIGHTINGS, Gramian, Losses, Weights

Vector = NDArray[np.float64]

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


def weigh(name: str, g_r: Vector, g_f: Vector, **options: float) -> Weights:
    weighting = WEIGHTINGS[name]
    gramian = Gramian(float(g_r @ g_r), float(g_r @ g_f), float(g_f @ g_f))
    return weighting.weigh(Losses(1.0, -1.0), gramian, weighting.init(0), defaults(weighting.options) | options)[0]


def combine(weights: Weights, g_r: Vector, g_f: Vector) -> Vector:
    return weights.retain * g_r + weights.forget * g_f


def project_out(g: Vector, other: Vector) -> Vector:
    """``g`` on the normal plane of ``other``."""
    return g - (g @ other) / (other @ other) * other


@given(any_norm, any_norm, any_cosine)
def test_pcgrad_is_the_sum_of_the_two_projected_gradients(rho: float, phi: float, cosine: float) -> None:
    g_r, g_f = gradients(rho, phi, cosine)
    conflict = g_r @ g_f < 0
    expected = project_out(g_r, g_f) + project_out(g_f, g_r) if conflict else g_r + g_f
    assert combine(weigh("pcgrad", g_r, g_f), g_r, g_f) == pytest.approx(expected, abs=1e-12 * max(rho, phi))


@given(any_norm, any_norm, any_cosine)
def test_pcgrad_paper_projects_the_forget_gradient_whether_or_not_it_conflicts(
    rho: float, phi: float, cosine: float
) -> None:
    g_r, g_f = gradients(rho, phi, cosine)
    expected = g_r + project_out(g_f, g_r)
    assert combine(weigh("pcgrad-paper", g_r, g_f), g_r, g_f) == pytest.approx(expected, abs=1e-12 * max(rho, phi))


@given(any_norm, any_norm, st.floats(-1.0, 1.0 - 1e-3))
def test_imtl_g_is_the_published_formula_where_that_is_defined(rho: float, phi: float, cosine: float) -> None:
    g_r, g_f = gradients(rho, phi, cosine)
    u = g_r / rho - g_f / phi
    w_f = (g_r @ u) / ((g_r - g_f) @ u)
    weights = weigh("imtl-g", g_r, g_f)
    assert weights.forget == pytest.approx(w_f, rel=1e-10)
    assert weights.retain == pytest.approx(1.0 - w_f, abs=1e-10)


@given(any_norm, any_norm, st.floats(-1.0 + 1e-3, 1.0))
def test_imtl_g_is_the_formula_printed_for_the_gradients_of_the_two_losses(
    rho: float, phi: float, cosine: float
) -> None:
    """With ``h = grad L_F = -g_f`` the same formula is 0/0 at the other end, k = 1, and c is the same."""
    g_r, g_f = gradients(rho, phi, cosine)
    h = -g_f
    u = g_r / rho - h / phi
    assert weigh("imtl-g", g_r, g_f).c == pytest.approx(-(h @ u) / ((g_r - h) @ u), rel=1e-10)


@given(any_norm, any_norm, any_cosine)
def test_imtl_g_has_equal_projections_on_both_unit_gradients(rho: float, phi: float, cosine: float) -> None:
    g_r, g_f = gradients(rho, phi, cosine)
    d = combine(weigh("imtl-g", g_r, g_f), g_r, g_f)
    assert d @ g_r / rho == pytest.approx(d @ g_f / phi, abs=1e-14 * min(rho, phi))


@given(any_norm, any_norm, any_cosine)
def test_mgda_is_the_shortest_convex_combination(rho: float, phi: float, cosine: float) -> None:
    """The point of a segment closest to the origin has ``g.d >= |d|^2`` at both ends."""
    g_r, g_f = gradients(rho, phi, cosine)
    weights = weigh("mgda", g_r, g_f)
    assert weights.retain + weights.forget == pytest.approx(1.0, abs=1e-15)
    d = combine(weights, g_r, g_f)
    for g in (g_r, g_f):
        assert g @ d - d @ d >= -1e-14 * (weights.retain * rho + weights.forget * phi) * np.linalg.norm(g)
    numerical = minimize_scalar(
        lambda c: np.linalg.norm(c * g_r + (1.0 - c) * g_f), bounds=(0.0, 1.0), options={"xatol": 1e-12}
    )
    assert np.linalg.norm(d) <= numerical.fun * (1.0 + 1e-9)


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
    d = combine(weigh("cagrad", g_r, g_f, alpha=alpha), g_r, g_f)
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


@given(any_norm, any_norm, st.floats(-0.9999, 0.9999), st.floats(0.01, 0.99))
def test_cagrad_meets_its_optimality_conditions_at_any_ratio_of_norms(
    rho: float, phi: float, cosine: float, alpha: float
) -> None:
    """``d - g0`` has the ball's radius and points along a g_w; only tasks with the least improvement are in g_w."""
    g_r, g_f = gradients(rho, phi, cosine)
    weights = weigh("cagrad", g_r, g_f, alpha=alpha)
    moved = Weights(weights.retain - 0.5, weights.forget - 0.5)
    g0, step = (g_r + g_f) / 2.0, combine(moved, g_r, g_f)
    assert np.linalg.norm(step) == pytest.approx(alpha * np.linalg.norm(g0), rel=1e-9)
    assert moved.retain >= 0
    assert moved.forget >= 0
    d = g0 + step
    gain_r, gain_f = g_r @ d, g_f @ d
    rounding = 1e-9 * np.linalg.norm(d) * min(rho, phi)
    if moved.retain * rho > 1e-9 * np.linalg.norm(g0):
        assert gain_r <= gain_f + rounding
    if moved.forget * phi > 1e-9 * np.linalg.norm(g0):
        assert gain_f <= gain_r + rounding


@given(any_norm, any_norm, st.floats(-0.999999, 1.0))
def test_nash_mtl_solves_the_bargaining_equation(rho: float, phi: float, cosine: float) -> None:
    """``G w = 1/w``, that is, ``w_i g_i.d = 1`` for both tasks."""
    g_r, g_f = gradients(rho, phi, cosine)
    weights = weigh("nash-mtl", g_r, g_f)
    d = combine(weights, g_r, g_f)
    assert weights.retain * (g_r @ d) == pytest.approx(1.0, rel=1e-8)
    assert weights.forget * (g_f @ d) == pytest.approx(1.0, rel=1e-8)


@pytest.mark.parametrize("distance", [1e-3, 1e-9, 1e-12, 1e-14, 0.0])
def test_nash_mtl_weights_stay_bounded_as_the_gradients_become_opposed(distance: float) -> None:
    weights = WEIGHTINGS["nash-mtl"].weigh(Losses(1.0, 1.0), Gramian(4.0, -4.0 * (1.0 - distance), 4.0), {}, {})[0]
    expected = 0.5 / math.sqrt(max(distance, 1e-12))
    assert (weights.retain, weights.forget) == pytest.approx((expected, expected), rel=1e-3)


@given(any_norm, any_norm, any_cosine)
def test_aligned_mtl_is_the_balance_transformation_of_the_mean(rho: float, phi: float, cosine: float) -> None:
    """``V sqrt(lmin/L) V^T (1/2, 1/2)`` from the eigenvalues L and vectors V of the Gramian, with 80 digits."""
    gramian = Gramian(rho * rho, cosine * rho * phi, phi * phi)
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
    weights = WEIGHTINGS["aligned-mtl"].weigh(Losses(1.0, 1.0), gramian, {}, {})[0]
    got = np.array([weights.retain * rho, weights.forget * phi])
    want = np.array([float(expected[0]) * rho, float(expected[1]) * phi])
    assert np.linalg.norm(got - want) <= 1e-15 / (1.0 - abs(gramian.k)) * 20 * np.linalg.norm(want)


@pytest.mark.parametrize(("rho", "phi"), [(1.0, 1.0), (1e6, 1e-6), (1e-6, 3.0)])
def test_aligned_mtl_shortens_the_longer_of_two_orthogonal_gradients(rho: float, phi: float) -> None:
    weights = WEIGHTINGS["aligned-mtl"].weigh(Losses(1.0, 1.0), Gramian(rho * rho, 0.0, phi * phi), {}, {})[0]
    short = min(rho, phi)
    assert (weights.retain, weights.forget) == pytest.approx((short / rho / 2, short / phi / 2), rel=1e-14)


@pytest.mark.parametrize(("rho", "phi", "sign"), [(1.0, 1.0, 1.0), (3.0, 0.5, 1.0), (3.0, 0.5, -1.0), (0.1, 2.0, -1.0)])
def test_aligned_mtl_of_parallel_gradients_is_the_published_rank_one_transformation(
    rho: float, phi: float, sign: float
) -> None:
    """Dropping the empty eigenvector leaves ``B = v v^T``, v the direction of ``(rho, +-phi)``: the same d."""
    g_r, g_f = gradients(rho, phi, sign)
    v = np.array([rho, sign * phi]) / math.hypot(rho, phi)
    expected = np.outer(v, v) @ np.array([0.5, 0.5]) @ np.array([g_r, g_f])
    assert combine(weigh("aligned-mtl", g_r, g_f), g_r, g_f) == pytest.approx(expected, abs=1e-15)


def test_aligned_mtl_can_give_the_longer_of_two_agreeing_gradients_a_negative_weight() -> None:
    weights = WEIGHTINGS["aligned-mtl"].weigh(Losses(1.0, 1.0), Gramian(100.0, 9.5, 1.0), {}, {})[0]
    assert weights.retain < 0 < weights.forget
    assert weights.retain + weights.forget > 0


@given(any_norm, any_norm, resolved_cosine, st.floats(-0.9, 0.9))
def test_gradvac_turns_each_gradient_to_the_target_similarity(
    rho: float, phi: float, cosine: float, target: float
) -> None:
    g_r, g_f = gradients(rho, phi, cosine)
    weights = weigh("gradvac", g_r, g_f, target=target)
    if cosine >= target:
        assert (weights.retain, weights.forget) == pytest.approx((1.0, 1.0), abs=1e-6)
        return
    if rho > phi:  # the weight added to the longer gradient would vanish beside the 1 it is added to
        turned, other = g_r / rho + (weights.forget - 1.0) * (g_f / rho), g_f / phi
    else:
        turned, other = g_f / phi + (weights.retain - 1.0) * (g_r / phi), g_r / rho
    assert turned @ other == pytest.approx(target * np.linalg.norm(turned), abs=1e-10)


@given(any_norm, any_norm, any_cosine)
def test_dualproj_is_the_closest_direction_to_the_mean_that_conflicts_with_neither(
    rho: float, phi: float, cosine: float
) -> None:
    """The conditions of a projection on a cone: feasible, moved only along active constraints, forwards."""
    g_r, g_f = gradients(rho, phi, cosine)
    weights = weigh("dualproj", g_r, g_f)
    d = combine(weights, g_r, g_f)
    for g, weight in ((g_r, weights.retain), (g_f, weights.forget)):
        assert weight >= 0.5
        assert g @ d >= -1e-12 * np.linalg.norm(g) * max(rho, phi)
        if weight > 0.5:
            assert g @ d <= 1e-12 * np.linalg.norm(g) * max(rho, phi)
