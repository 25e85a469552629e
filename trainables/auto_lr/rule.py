"""The parabola that AutoLR fits, and the interface of rules. A rule computes the new rate from fitted parabolas.

Along ``theta - x d`` (weights ``theta``, update direction ``d``, rate ``x``), the retain loss is approximately
``L0 - x G + x^2 H / 2``. AutoLR's learning rate is the minimiser ``eta* = G / H`` (paper, Eq. 8). Two losses are
computed at a probed rate ``eta``, without gradients: ``L+ = L_R(theta - eta d)`` and ``L- = L_R(theta + eta d)``. Then

    G = (L- - L+) / (2 eta)        H = (L- + L+ - 2 L0) / eta^2.

The paper's Algorithm 1 swaps ``theta + eta d`` and ``theta - eta d``, so its step has the wrong sign. This module uses
the correct sign.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fit:
    """One fitted parabola: the probed losses, slope ``G``, curvature ``H``, and the minimum ``eta*`` if it exists.

    If ``eta*`` is None, ``fallback`` is the reason: ``not finite`` (a probe was NaN or infinite), ``no descent``
    (``G <= 0``, so the step does not lower ``L_R``) or ``no curvature`` (``H <= 0``, so no minimum exists).
    """

    eta: float
    loss_zero: float
    loss_plus: float
    loss_minus: float
    slope: float
    curvature: float
    eta_star: float | None
    fallback: str | None


def fit_parabola(eta: float, loss_zero: float, loss_plus: float, loss_minus: float) -> Fit:
    """Compute G, H and ``eta*`` by the formulas in the module's docstring, in float64. ``eta`` must be positive."""
    slope = (loss_minus - loss_plus) / (2.0 * eta)
    curvature = (loss_minus + loss_plus - 2.0 * loss_zero) / eta**2
    fallback = None
    if not (math.isfinite(slope) and math.isfinite(curvature)):
        fallback = "not finite"
    elif slope <= 0.0:
        fallback = "no descent"
    elif curvature <= 0.0:
        fallback = "no curvature"
    eta_star = None
    if fallback is None:
        eta_star = slope / curvature
        if not (math.isfinite(eta_star) and eta_star > 0.0):
            eta_star, fallback = None, "not finite"
    return Fit(eta, loss_zero, loss_plus, loss_minus, slope, curvature, eta_star, fallback)


Probe = Callable[[float], Fit]
"""A function that evaluates ``L_R`` at the rates ``x`` and ``-x``, and returns the fitted parabola."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """The guard of a rule: how the rate is annealed at the end of a run, and lowered when the run restarts.

    If the rule has a guard, the final weights of the run are interpolated (:mod:`trainables.run.interpolation`), unless
    the spec disables interpolation.

    Attributes:
        annealed: the length of the last part of the run, in which the rate falls linearly to 0, as a share of the run.
        cut: the number by which the rate is divided at a restart. The run restarts if a loss or gradient is not finite.
    """

    annealed: float
    cut: float

    def share(self, step: int, steps: int) -> float:
        """Return the factor that multiplies the chosen rate at a step. Steps are numbered from 1 to ``steps``."""
        return min(1.0, (1.0 - (step - 1) / steps) / self.annealed)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule by which AutoLR chooses the learning rate.

    Attributes:
        choose: ``choose(fit, probe)`` returns the new rate, or the reason why the current rate is kept. ``fit`` is the
            parabola at the current rate, ``fit.eta``.
        guard: the settings for annealing and restarts. A rule with a guard keeps the first rate that it chooses. A rule
            without a guard aims at the minimum ``eta*`` at every update, so a rate other than ``eta*`` counts as
            clipped.
    """

    choose: Callable[[Fit, Probe], float | str]
    guard: Guard | None = None
