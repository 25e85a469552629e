"""One step of a weighting by its name, and Gramians from vectors or from norms and an angle."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from search_spaces.common.fields import defaults
from trainables.weightings import WEIGHTINGS, Gramian, Losses, State, Weights

Vector = NDArray[np.float64]
LOSSES = Losses(1.0, -1.0)


def step(
    name: str, gramian: Gramian, state: State | None = None, losses: Losses = LOSSES, **options: float
) -> tuple[Weights, State]:
    """Return the weights and the new state. Other options have their defaults; by default the state is the first."""
    method = WEIGHTINGS[name]
    assert method.weigh is not None
    return method.weigh(losses, gramian, method.init(0) if state is None else state, defaults(method.options) | options)


def weigh(name: str, gramian: Gramian, losses: Losses = LOSSES, **options: float) -> Weights:
    return step(name, gramian, losses=losses, **options)[0]


def gramian_of(rho: float, phi: float, cosine: float) -> Gramian:
    return Gramian(rho * rho, cosine * rho * phi, phi * phi)


def gramian_between(g_r: Vector, g_f: Vector) -> Gramian:
    return Gramian(float(g_r @ g_r), float(g_r @ g_f), float(g_f @ g_f))


def combined(weights: Weights, g_r: Vector, g_f: Vector) -> Vector:
    return weights.retain * g_r + weights.forget * g_f
