"""rotograd is rotograd-scale whose forget gradient is turned, by matrices, towards the mean of the unit gradients."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.linalg import expm

from tests.trainables.weightings.gramians import Vector, combined, gramian_between, step, weigh
from trainables.weightings import Gramian, State


def directions(pairs: list[tuple[Vector, Vector]], name: str, **options: float) -> list[Vector]:
    """The step's direction at consecutive pairs of gradients."""
    state: State | None = None
    found: list[Vector] = []
    for pair in pairs:
        weights, state = step(name, gramian_between(*pair), state, **options)
        found.append(combined(weights, *pair))
    return found


def pairs_of(seed: int, steps: int) -> list[tuple[Vector, Vector]]:
    """Gradients in five dimensions around two fixed ones, so that the angle varies about one value."""
    draws = np.random.default_rng(seed)
    first, second = draws.normal(size=(2, 5))
    return [(first + 0.3 * draws.normal(size=5), 4.0 * second + 0.3 * draws.normal(size=5)) for _ in range(steps)]


@pytest.mark.parametrize("seed", range(3))
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


@pytest.mark.parametrize("seed", range(3))
def test_it_conflicts_with_neither_gradient(seed: int) -> None:
    draws = np.random.default_rng(seed)
    pairs = [(draws.normal(size=3), draws.normal(size=3)) for _ in range(200)]  # the angle leaps from step to step
    for (g_r, g_f), d in zip(pairs, directions(pairs, "rotograd", rate=1.0), strict=True):
        assert g_r @ d >= -1e-9 * np.linalg.norm(g_r) * np.linalg.norm(d)
        assert g_f @ d >= -1e-9 * np.linalg.norm(g_f) * np.linalg.norm(d)


def test_opposed_gradients_teach_nothing() -> None:
    _, state = step("rotograd", Gramian(1.0, 0.5, 1.0))
    weights, after = step("rotograd", Gramian(1.0, -2.0, 4.0), state)
    assert after["theta"] == state["theta"] > 0
    assert weights == step("rotograd-scale", Gramian(1.0, -2.0, 4.0), state)[0]


def test_both_gradients_get_the_length_the_paper_gives_and_ngdiffs_direction() -> None:
    _, state = step("rotograd-scale", Gramian(4.0, 1.0, 100.0))
    gramian = Gramian(1.0, -2.0, 400.0)  # the norms 2 and 10 have become 1 and 20
    weights, _ = step("rotograd-scale", gramian, state)
    length = 0.5 / 2.5 * 1.0 + 2.0 / 2.5 * 20.0
    assert (weights.retain * 1.0, weights.forget * 20.0) == pytest.approx((length, length), rel=1e-14)
    assert weights.c == pytest.approx(weigh("ngdiff", gramian).c, rel=1e-14)
