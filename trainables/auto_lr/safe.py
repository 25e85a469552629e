"""This project's rule that keeps the model: a rate from the retain loss's curvature, annealed, and a way back.

    rate    x0 / 5, where x0 is how far along the first update the curvature alone costs 0.2 nats, x0^2 H / 2 = 0.2
    anneal  linearly to 0 over the last 30% of the run, so that a retain loss that dipped comes back
    back    at the end the weights are interpolated towards the target's as far as what is forgotten stays so
            (trainables/run/interpolation.py)

``H`` comes from both sides of theta, so it says the same wherever the step leads, also for a method that only forgets;
and a distance at which the loss bends by 0.2 nats is far above float32 rounding, from wherever the search starts.
"""

from __future__ import annotations

import math

from trainables.auto_lr.guard import Guard, Memory
from trainables.auto_lr.parabola import Fit
from trainables.auto_lr.rule import Probe, Proposal, Rule

BEND = 0.2
"""Nats per token that the retain loss bends by at the distance looked for."""

SHARE = 0.2
"""The rate is this share of that distance: momentum repeats a step, by up to 1 / (1 - beta1) times."""

ANNEALED = 0.3
"""Over this last part of the run the rate falls to 0."""

CUT = 4.0
"""Beginning anew after a number that is none divides the rate by this."""

RESOLVED = BEND / 1000.0
_STRIDE = 30.0  # below sqrt(BEND / RESOLVED): a stride from an unresolved bend never passes the distance
_TRUST = 1.25
_MOST_FITS = 6


def bending_distance(first: Fit, probe: Probe) -> float | None:
    """Where ``x^2 H / 2`` is ``BEND``, by probes nearer or farther until it lies within ``_TRUST`` of the last one.

    So it is the same from every start: far out the loss is no parabola, and bends less than one fitted at the minimum.
    Distances that bent more and less enclose it, and no probe leaves them; where ``_MOST_FITS`` fits did not find it,
    it is the largest that bent less. None where none bent more, as on a loss that is flat, however noisy, or none less.
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
    """The distance's share, once."""
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
