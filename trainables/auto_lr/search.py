"""This project's rules that probe at other distances until the parabola's minimum lies near the probe."""

from __future__ import annotations

import math

from trainables.auto_lr.parabola import Fit
from trainables.auto_lr.rule import Memory, Probe, Proposal, Rule, within_twice

TRUST = 2.0
"""A parabola's minimum is trusted up to this factor away from its probe."""

STRIDE = 4.0
"""The probe moves by at most this factor at a time."""

HARM = 1.1
"""Before the first success, a rate is rejected if one step at it multiplies the retain loss by more than this."""

MOST_FITS = 6
"""The most fits in one update, which reach a factor of ``2 * 4^5`` from the present rate."""


def search(first: Fit, probe: Probe, *, settled: bool) -> Proposal:
    """Probe at other distances until a parabola's minimum lies within a factor ``TRUST`` of its probe.

    A parabola through ``x = 0, ±h`` is informative only near ``h``: far below, float32 rounding of the losses
    dominates; far above, the loss is not a parabola. So its minimum is trusted only near ``h``. Otherwise ``h`` moves
    there, by a factor of at most ``STRIDE``, and between the bounds once distances too near and too far are known.

    A step that starts uphill (the minimum lies behind theta) is refused. A rate that no update has chosen is a guess,
    though, and its probes may lie beyond the valley: until the first success, a rise by a factor ``HARM`` counts as too
    far. ``settled``: an earlier update chose the present rate, that of ``first``.
    """
    fit, low, high = first, 0.0, math.inf
    for added in range(MOST_FITS):
        wanted = _wanted(fit)
        if wanted is None and not settled and fit.loss_plus > HARM * fit.loss_zero:
            wanted = 0.0
        if wanted is None and low == 0.0:
            # Unsettled: the guess was too far; this rate is nearer, though its step still leads uphill.
            return Proposal(None if settled or not added else fit.eta, fit.fallback)
        if wanted is not None and fit.eta / TRUST <= wanted <= fit.eta * TRUST:
            return Proposal(wanted)
        if wanted is not None and wanted > fit.eta:
            low = fit.eta
        else:
            high = fit.eta
        if added == MOST_FITS - 1:
            break
        if low > 0.0 and math.isfinite(high):
            if high <= low * TRUST:
                return Proposal(math.sqrt(low * high))
            fit = probe(math.sqrt(low * high))
        else:
            fit = probe(min(max(wanted or 0.0, fit.eta / STRIDE), fit.eta * STRIDE))
    # Out of probes: use the largest rate at which the loss fell, or a smaller one if all probes were too far.
    if low > 0.0:
        return Proposal(low)
    return Proposal(None if fit.fallback == "not finite" else max(wanted or 0.0, fit.eta / STRIDE), fit.fallback)


def _wanted(fit: Fit) -> float | None:
    """Return the estimated minimum: 0 if it is too near to tell, infinity if beyond the probe, None if behind theta."""
    if fit.fallback == "not finite":
        return 0.0
    if fit.curvature <= 0.0:
        return math.inf if fit.slope > 0.0 else None
    minimum = fit.slope / fit.curvature
    return max(0.0, minimum) if minimum > -fit.eta / STRIDE else None


def _unsettled() -> Memory:
    return {"settled": 0}


def _search(memory: Memory, fit: Fit, probe: Probe) -> tuple[Proposal, Memory]:
    """Apply :func:`search`; the memory says whether it ever succeeded."""
    proposal = search(fit, probe, settled=bool(memory["settled"]))
    return proposal, memory if proposal.eta is None else {"settled": 1}


def _trust(memory: Memory, fit: Fit, probe: Probe) -> tuple[Proposal, Memory]:
    """Search freely until the first success, which removes the influence of the start; then stay within ``[eta/2, 2
    eta]``."""
    proposal, new = _search(memory, fit, probe)
    if memory["settled"] and proposal.eta is not None:
        proposal = Proposal(within_twice(fit.eta, proposal.eta))
    return proposal, new


SEARCH = Rule(
    name="search",
    formula=f"eta*, probed again until it lies within a factor {TRUST:g} of where it was probed",
    citation="this project",
    propose=_search,
    init=_unsettled,
)

TRUST_REGION = Rule(
    name="trust",
    formula="search at first, then search clipped to [eta/2, 2 eta]",
    citation="this project",
    propose=_trust,
    init=_unsettled,
)
