"""The rule ``safe``: a rate from the curvature of the retain loss, then annealing and interpolation.

    rate         x0 / 5, where x0 is the distance along the first update at which x0^2 H / 2 = 0.2 nats
    annealing    linearly to 0 over the last 30% of the run, so that the retain loss recovers
    at the end   the weights are interpolated towards the target's weights (trainables/run/interpolation.py)

The curvature ``H`` of the retain loss is fitted from probes on both sides of the weights theta, so ``H`` does not
depend on the sign of the step. Therefore ``H`` also limits the rate of a method without a retain loss. Probing
continues until the rise ``x^2 H / 2`` at a probe is about 0.2 nats, so the initial rate does not affect the result.
A rise of 0.2 nats is far above the rounding errors of float32.
"""

from __future__ import annotations

import math

from trainables.auto_lr.rule import Fit, Guard, Probe, Rule

BEND = 0.2
"""``x0^2 H / 2``, the rise of the retain loss at the distance x0 due to curvature alone (nats per token)."""

SHARE = 0.2
"""The chosen rate divided by x0. This share is below 1, because momentum repeats a step up to 1 / (1 - beta1) times."""

ANNEALED = 0.3
"""The length of the last part of the run, in which the rate falls to 0, as a share of the run."""

CUT = 4.0
"""The number by which the rate is divided at a restart. The run restarts if a loss or gradient is not finite."""

RESOLVED = BEND / 1000.0
_STRIDE = 30.0
"""The maximum factor between the distances of successive probes. If a probe's rise is below ``RESOLVED``, the next
probe is still not beyond x0, because the factor is below ``sqrt(BEND / RESOLVED)``."""
_TRUST = 1.25
_MOST_FITS = 6


def bending_distance(first: Fit, probe: Probe) -> float | None:
    """Return the distance x at which ``x^2 H / 2`` is ``BEND``. Probe until a probe's distance is near x.

    A probe is near x if x is within a factor ``_TRUST`` of the probe's distance. Far from the weights, the loss is not
    a parabola, so the result of one fit would depend on its distance. Each new probe lies between the largest distance
    with too small a rise and the smallest distance with too large a rise. After ``_MOST_FITS`` fits without success,
    the result is the largest distance with too small a rise. If the rise was too small at every probe (as on a flat or
    noisy loss), or too large at every probe, the result is None.
    """
    fit, near, far = first, 0.0, math.inf
    for added in range(_MOST_FITS):
        wanted = _wanted(fit)
        if fit.eta / _TRUST <= wanted <= fit.eta * _TRUST:
            return wanted
        if wanted > fit.eta:
            near = max(near, fit.eta)
        else:
            far = min(far, fit.eta)
        if added < _MOST_FITS - 1:
            further = min(max(wanted, fit.eta / _STRIDE), fit.eta * _STRIDE)
            fit = probe(further if near < further < far else math.sqrt(near * far))
    return near if 0.0 < near < far < math.inf else None


def _wanted(fit: Fit) -> float:
    bend = fit.eta**2 * fit.curvature / 2.0
    if not math.isfinite(bend):
        return 0.0
    return fit.eta * math.sqrt(BEND / bend) if bend > RESOLVED else math.inf


def _choose(fit: Fit, probe: Probe) -> float | str:
    distance = bending_distance(fit, probe)
    return "no curvature" if distance is None else SHARE * distance


SAFE = Rule(_choose, guard=Guard(annealed=ANNEALED, cut=CUT))
