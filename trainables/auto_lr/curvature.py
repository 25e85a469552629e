"""The rule ``curvature``: choose one rate from the curvature of the retain loss.

The rate is ``x0 / 5``. At the rate x0, curvature alone raises the retain loss by ``x0^2 H / 2 = 0.2`` nats.

The curvature ``H`` along the first update is fitted from the losses at the rates ``x`` and ``-x``. ``H`` does not
depend on the sign of the update, so the rule also works for methods without a retain loss. The fit is repeated at other
rates until ``x^2 H / 2`` is about 0.2 nats, so the chosen rate does not depend on the initial rate. A rise of 0.2 nats
is far above the rounding errors of float32.
"""

from __future__ import annotations

import math

from trainables.auto_lr.fit import Fit, Probe

BEND = 0.2
"""``x0^2 H / 2``, the rise of the retain loss at the rate x0 due to curvature alone (nats per token)."""

SHARE = 0.2
"""The chosen rate divided by x0. This ratio is below 1, because momentum repeats a step up to 1 / (1 - beta1) times."""

MIN_BEND = BEND / 1000.0
"""The smallest ``x^2 H / 2`` that counts as measurable."""

_STRIDE = 30.0
"""The maximum factor between two successive probed rates.

The factor is below ``sqrt(BEND / MIN_BEND)``. So after a rate at which ``x^2 H / 2`` is not measurable, the value at
the next rate is below ``BEND``.
"""
_TRUST = 1.25
_MAX_FITS = 6


def find_bending_rate(first_fit: Fit, probe: Probe) -> float | None:
    """Return the rate x at which ``x^2 H / 2`` is ``BEND``; None if this rate cannot be found.

    The retain loss is a parabola only near the current weights. So parabolas are fitted at other rates until the x of a
    parabola is within a factor ``_TRUST`` of the rate at which the parabola was fitted. If x is higher than this rate,
    the rate was too low. If x is lower, the rate was too high. Each new rate lies between the largest rate that was too
    low and the smallest rate that was too high. If x is not found with ``_MAX_FITS`` parabolas, the result is the
    largest rate that was too low. In this case, None is returned if no rate was too low or no rate was too high.

    Args:
        first_fit: the parabola that was fitted at the current rate.
        probe: function that measures the losses at a rate, and returns the parabola.
    """
    fit = first_fit
    too_low, too_high = 0.0, math.inf
    for index in range(_MAX_FITS):
        rate = _bending_rate(fit)
        if fit.eta / _TRUST <= rate <= fit.eta * _TRUST:
            return rate
        if rate > fit.eta:
            too_low = max(too_low, fit.eta)
        else:
            too_high = min(too_high, fit.eta)
        if index < _MAX_FITS - 1:
            next_rate = min(max(rate, fit.eta / _STRIDE), fit.eta * _STRIDE)
            if not too_low < next_rate < too_high:
                next_rate = math.sqrt(too_low * too_high)
            fit = probe(next_rate)
    return too_low if 0.0 < too_low < too_high < math.inf else None


def _bending_rate(fit: Fit) -> float:
    bend = fit.eta**2 * fit.curvature / 2.0
    if not math.isfinite(bend):
        return 0.0
    return fit.eta * math.sqrt(BEND / bend) if bend > MIN_BEND else math.inf
