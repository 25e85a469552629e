"""The rule ``safe``: a rate from the curvature of the retain loss, then annealing and interpolation.

    rate         x0 / 5, where x0 is the distance along the first update at which x0^2 H / 2 = 0.2 nats
    annealing    linearly to 0 over the last 30% of the run, so that the retain loss recovers
    at the end   the weights are interpolated towards the target's weights (trainables/run/interpolation.py)

The curvature ``H`` is fitted from probes on both sides of the weights. ``H`` does not depend on the sign of the step,
so the rule also works for methods without a retain loss. Probing ends when a probe has a rise ``x^2 H / 2`` of about
0.2 nats, so the result does not depend on the initial rate. A rise of 0.2 nats is far above the rounding errors of
float32.
"""

from __future__ import annotations

import math

from trainables.auto_lr.rule import Fit, Probe, Rule

BEND = 0.2
"""``x0^2 H / 2``, the rise of the retain loss at the distance x0 due to curvature alone (nats per token)."""

SHARE = 0.2
"""The chosen rate divided by x0. The share is below 1, because momentum repeats a step up to 1 / (1 - beta1) times."""

ANNEALED = 0.3
"""The last part of the run, as a share of the run. In this part, the rate falls to 0."""

CUT = 4.0
"""The number by which the rate is divided at a restart."""

RESOLVED = BEND / 1000.0
_STRIDE = 30.0
"""The maximum factor between two successive probes. The factor is below ``sqrt(BEND / RESOLVED)``, so no probe skips
x0."""
_TRUST = 1.25
_MOST_FITS = 6


def bending_distance(first: Fit, probe: Probe) -> float | None:
    """Return the distance x at which ``x^2 H / 2`` is ``BEND``; None if the curvature cannot be measured.

    Far from the weights, the loss is not a parabola. So new parabolas are fitted until x is within a factor ``_TRUST``
    of the probed distance. Each new probe lies between the probes with too small a rise and the probes with too large a
    rise. After ``_MOST_FITS`` fits, the result is the largest distance with too small a rise.
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


def annealing(step: int, steps: int) -> float:
    """Return the factor of the rate at a step of a run of ``steps`` steps. Steps are counted from 1."""
    return min(1.0, (1.0 - (step - 1) / steps) / ANNEALED)


SAFE = Rule(_choose, is_guarded=True)
