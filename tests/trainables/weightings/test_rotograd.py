"""rotograd is rotograd-scale whose forget gradient is turned, by matrices, towards the mean of the unit gradients."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import expm

from search_spaces.fields import defaults
from trainables.weightings import WEIGHTINGS, Gramian, Losses, State, Weights

ROTOGRAD, SCALE = WEIGHTINGS["rotograd"], WEIGHTINGS["rotograd-scale"]
LOSSES = Losses(1.0, -1.0)
Vector = NDArray[np.float64]


def gramian_between(g_r: Vector, g_f: Vector) -> Gramian:
    return Gramian(float(g_r @ g_r), float(g_r @ g_f), float(g_f @ g_f))


def directions(pairs: list[tuple[Vector, Vector]], name: str, **options: float) -> list[Vector]:
    """The step's direction at consecutive pairs of gradients."""
    weighting = WEIGHTINGS[name]
    state: State = weighting.init(0)
    found: list[Vector] = []
    for g_r, g_f in pairs:
        weights, state = weighting.weigh(
            LOSSES, gramian_between(g_r, g_f), state, defaults(weighting.options) | options
        )
        found.append(weights.retain * g_r + weights.forget * g_f)
    return found


def pairs_of(seed: int, steps: int) -> list[tuple[Vector, Vector]]:
    """Gradients in five dimensions around two fixed ones, so that the angle varies about one value."""
    draws = np.random.default_rng(seed)
    first, second = draws.normal(size=(2, 5))
    return [(first + 0.3 * draws.normal(size=5), 4.0 * second + 0.3 * draws.normal(size=5)) for _ in range(steps)]


@pytest.mark.parametrize("seed", range(6))
def test_it_is_gradient_descent_on_the_alignment_of_the_turned_forget_gradient(seed: int) -> None:
    """By 5 x 5 rotation matrices, exp(theta J) with J the plane's generator, and a numerical derivative in theta."""
    theta, rate, pairs = 0.0, 0.2, pairs_of(seed, 40)
    first_r, first_f = (float(np.linalg.norm(g)) for g in pairs[0])
    for (g_r, g_f), found in zip(pairs, directions(pairs, "rotograd", rate=rate), strict=True):
        rho, phi = np.linalg.norm(g_r), np.linalg.norm(g_f)
        u_r, u_f = g_r / rho, g_f / phi
        across = u_r - (u_r @ u_f) * u_f
        across /= np.linalg.norm(across)
        generator = np.outer(across, u_f) - np.outer(u_f, across)
        mean = (u_r + u_f) / 2.0
        half = math.acos(float(u_r @ u_f)) / 2.0

        def misalignment(angle: float, j: Vector = generator, u: Vector = u_f, v: Vector = mean) -> float:
            return -float((expm(angle * j) @ u) @ v)

        turned = expm(min(theta, half, math.pi - 2.0 * half) * generator) @ u_f
        alpha = (rho / first_r) / (rho / first_r + phi / first_f)
        np.testing.assert_allclose(found, (alpha * rho + (1 - alpha) * phi) * (u_r + turned), rtol=1e-6, atol=1e-9)
        theta -= rate * (misalignment(theta + 1e-6) - misalignment(theta - 1e-6)) / 2e-6
        assert abs(theta) < math.pi


def test_the_turned_gradient_comes_to_lie_along_the_mean_of_the_two() -> None:
    g_r, g_f = np.array([1.0, 0.0]), np.array([-0.4, 2.0])
    last = directions([(g_r, g_f)] * 400, "rotograd")[-1]
    u_r, u_f = g_r, g_f / np.linalg.norm(g_f)
    mean = (u_r + u_f) / np.linalg.norm(u_r + u_f)
    np.testing.assert_allclose(last / np.linalg.norm(last), (u_r + mean) / np.linalg.norm(u_r + mean), atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_the_first_step_and_every_step_at_rate_0_are_rotograd_scales(seed: int) -> None:
    pairs = pairs_of(seed, 10)
    scaled = directions(pairs, "rotograd-scale")
    np.testing.assert_allclose(directions(pairs, "rotograd")[0], scaled[0], rtol=1e-12)
    for found, expected in zip(directions(pairs, "rotograd", rate=0.0), scaled, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_it_conflicts_with_neither_gradient(seed: int) -> None:
    draws = np.random.default_rng(seed)
    pairs = [(draws.normal(size=3), draws.normal(size=3)) for _ in range(200)]  # the angle leaps from step to step
    for (g_r, g_f), d in zip(pairs, directions(pairs, "rotograd", rate=1.0), strict=True):
        assert g_r @ d >= -1e-9 * np.linalg.norm(g_r) * np.linalg.norm(d)
        assert g_f @ d >= -1e-9 * np.linalg.norm(g_f) * np.linalg.norm(d)


def test_opposed_gradients_teach_nothing() -> None:
    _, state = ROTOGRAD.weigh(LOSSES, Gramian(1.0, 0.5, 1.0), ROTOGRAD.init(0), defaults(ROTOGRAD.options))
    weights, after = ROTOGRAD.weigh(LOSSES, Gramian(1.0, -2.0, 4.0), state, defaults(ROTOGRAD.options))
    assert after["theta"] == state["theta"] > 0
    assert weights == SCALE.weigh(LOSSES, Gramian(1.0, -2.0, 4.0), state, defaults(SCALE.options))[0]


# The scaling stage alone: equal lengths, the paper's C, NGDiff's direction ---------------------------------------


def test_both_gradients_get_the_length_the_paper_gives_and_ngdiffs_direction() -> None:
    _, state = SCALE.weigh(LOSSES, Gramian(4.0, 1.0, 100.0), SCALE.init(0), {})
    gramian = Gramian(1.0, -2.0, 400.0)  # the norms 2 and 10 have become 1 and 20
    weights, _ = SCALE.weigh(LOSSES, gramian, state, {})
    alpha_r, alpha_f = 0.5 / 2.5, 2.0 / 2.5
    length = alpha_r * 1.0 + alpha_f * 20.0
    assert weights.retain * 1.0 == pytest.approx(length, rel=1e-14)
    assert weights.forget * 20.0 == pytest.approx(length, rel=1e-14)
    assert weights.c == pytest.approx(WEIGHTINGS["ngdiff"].weigh(LOSSES, gramian, {}, {})[0].c, rel=1e-14)


@pytest.mark.parametrize("gramian", [Gramian(0.0, 0.0, 4.0), Gramian(4.0, 0.0, 0.0), Gramian(0.0, 0.0, 0.0)])
def test_a_zero_gradient_leaves_the_sum_and_no_first_norm(gramian: Gramian) -> None:
    weights, state = SCALE.weigh(LOSSES, gramian, SCALE.init(0), {})
    assert weights == Weights(1.0, 1.0)
    assert 0.0 not in state.values()


@pytest.mark.parametrize("exponent", [-6, 0, 6])
def test_the_weights_do_not_change_when_all_gradients_are_rescaled(exponent: int) -> None:
    s = 10.0 ** (2 * exponent)
    state = SCALE.init(0)
    for rr, rf, ff in ((4.0, 1.0, 9.0), (1.0, -0.5, 16.0)):
        weights, state = SCALE.weigh(LOSSES, Gramian(s * rr, s * rf, s * ff), state, {})
    assert weights.retain == pytest.approx((0.5 / (0.5 + 4 / 3)) + (4 / 3) / (0.5 + 4 / 3) * 4.0, rel=1e-12)
