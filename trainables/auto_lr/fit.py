"""The parabola that AutoLR fits to the retain loss.

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
    """The parabola through the losses at the rates 0, ``eta`` and ``-eta``. ``eta`` must be positive."""

    eta: float
    loss_zero: float
    loss_plus: float
    loss_minus: float

    @property
    def slope(self) -> float:
        """G, which is positive if a step along ``-d`` lowers the loss."""
        return (self.loss_minus - self.loss_plus) / (2.0 * self.eta)

    @property
    def curvature(self) -> float:
        """H, which is positive if the parabola has a minimum."""
        return (self.loss_minus + self.loss_plus - 2.0 * self.loss_zero) / self.eta**2

    @property
    def is_finite(self) -> bool:
        return math.isfinite(self.slope) and math.isfinite(self.curvature)

    @property
    def eta_star(self) -> float | None:
        """The rate at the minimum; None if the parabola has no minimum at a positive, finite rate."""
        if not (self.is_finite and self.slope > 0.0 and self.curvature > 0.0):
            return None
        minimum = self.slope / self.curvature
        return minimum if math.isfinite(minimum) and minimum > 0.0 else None


Probe = Callable[[float], Fit]
"""A function that measures the retain loss at the rates ``x`` and ``-x``, and returns the fitted parabola."""
