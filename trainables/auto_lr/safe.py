"""This project's rule that protects the model: a rate from the retain loss's curvature, annealed, then interpolated.

    rate         x0 / 5; at the distance x0 along the first update the curvature alone costs 0.2 nats, x0^2 H / 2 = 0.2
    annealing    linearly to 0 over the last 30% of the run, so that the retain loss recovers
    at the end   the weights are interpolated towards the target's (trainables/run/interpolation.py)

``H`` comes from both sides of theta, so it does not depend on the direction of the step, even for a method that only
forgets. A distance that costs 0.2 nats is far above float32 rounding, wherever the search starts.
"""

from __future__ import annotations

import math

from trainables.auto_lr.parabola import Fit
from trainables.auto_lr.rule import Guard, Memory, Probe, Proposal, Rule

BEND = 0.2
"""The rise of the retain loss by curvature alone at the distance looked for (nats per token)."""

SHARE = 0.2
"""The rate as a share of that distance: momentum repeats a step up to 1 / (1 - beta1) times."""

ANNEALED = 0.3
"""The last part of the run, over which the rate falls to 0."""

CUT = 4.0
"""A restart after a value that is not finite divides the rate by this."""

RESOLVED = BEND / 1000.0
_STRIDE = 30.0  # below sqrt(BEND / RESOLVED): a stride from an unresolved rise never passes the distance
_TRUST = 1.25
_MOST_FITS = 6


def bending_distance(first: Fit, probe: Probe) -> float | None:
    """Return the distance at which ``x^2 H / 2`` is ``BEND``, by probing until it is within ``_TRUST`` of the last
    probe.

    The result is then the same from every start: far from theta the loss is not a parabola, and rises less than one
    fitted at the minimum. Probes stay between the distances known to rise less and to rise more. After ``_MOST_FITS``
    fits without success the result is the largest distance that rose less. None if no probe rose more, as on a flat
    loss however noisy, or if none rose less.
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


def _propose(memory: Memory, fit: Fit, probe: Probe) -> tuple[Proposal, Memory]:
    """Propose the rate once, from the distance."""
    if memory["settled"]:
        return Proposal(None, fit.fallback), memory
    distance = bending_distance(fit, probe)
    if distance is None:
        return Proposal(None, "no curvature"), memory
    return Proposal(SHARE * distance, is_minimum=False), {"settled": 1}


SAFE = Rule(
    name="safe",
    formula=f"{SHARE:g} x0, x0^2 H / 2 = {BEND:g}; annealed; interpolated towards the target",
    citation="this project",
    propose=_propose,
    init=lambda: {"settled": 0},
    guard=Guard(annealed=ANNEALED, cut=CUT),
)
