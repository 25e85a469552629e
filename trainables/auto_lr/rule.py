"""The parabola that AutoLR fits, and the interface of AutoLR's rules.

The weights are ``theta``, the update direction is ``d``, and the rate is ``x``. At the weights ``theta - x d``, the
retain loss is about ``L0 - x G + x^2 H / 2``. This parabola has its minimum at ``eta* = G / H`` (arXiv:2410.22086,
Eq. 8). G and H follow from ``L0 = L_R(theta)`` and two losses at a probed rate ``eta``, ``L+ = L_R(theta - eta d)`` and
``L- = L_R(theta + eta d)``:

    G = (L- - L+) / (2 eta)        H = (L- + L+ - 2 L0) / eta^2.

Algorithm 1 of the paper swaps ``theta + eta d`` and ``theta - eta d``, so its step has the wrong sign. This module uses
the correct sign.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fit:
    """A parabola, fitted to the losses at the rates 0, ``eta`` and ``-eta``, with slope G and curvature H.

    ``eta_star`` is the rate at the minimum. If ``eta_star`` is None, ``fallback`` is the reason: ``not finite`` (a loss
    was NaN or infinite), ``no descent`` (G <= 0, so the step does not lower the loss) or ``no curvature`` (H <= 0, so
    no minimum exists).
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
    """Return the parabola through the losses at the rates 0, ``eta`` and ``-eta``. ``eta`` must be positive."""
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
"""A function that measures the retain loss at the rates ``x`` and ``-x``, and returns the fitted parabola."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule by which AutoLR chooses the learning rate.

    Attributes:
        choose: ``choose(fit, probe)`` returns the new rate, or the reason why the rate does not change. ``fit`` is the
            parabola at the current rate. ``probe(x)`` measures the losses at the rates ``x`` and ``-x``, and returns
            the parabola.
        is_guarded: whether the rule chooses the rate only once, and anneals the rate at the end of the run. With a
            guarded rule, the run also restarts from the target's weights if a loss or gradient is not finite, and the
            final weights are by default interpolated (:mod:`trainables.run.interpolation`).
    """

    choose: Callable[[Fit, Probe], float | str]
    is_guarded: bool = False
