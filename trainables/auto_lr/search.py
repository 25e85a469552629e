"""This project's rules: probe at other distances until the parabola's minimum lies near where it was probed."""

from __future__ import annotations

import math

from trainables.auto_lr.guard import Memory
from trainables.auto_lr.parabola import Fit
from trainables.auto_lr.rule import Probe, Proposal, Rule, within_twice

TRUST = 2.0
"""A parabola's minimum is taken up to this factor away from where the parabola was probed."""

STRIDE = 4.0
"""The probe moves by at most this factor at a time."""

HARM = 1.1
"""Before the first success, a rate whose one step multiplies the retain loss by more is not accepted."""

MOST_FITS = 6
"""At most so many fits in one update, which reaches a factor ``2 * 4^5`` from the present rate."""


def search(first: Fit, probe: Probe, *, settled: bool) -> Proposal:
    """Probe at other distances until a parabola's minimum lies within a factor ``TRUST`` of where it was probed.

    A parabola through ``x = 0, ±h`` says little about ``x`` far from ``h``: far below, float32 rounding of the losses
    is all it sees; far above, the loss is no parabola any more. So its minimum is taken only near ``h``; otherwise
    ``h`` goes there, by a factor ``STRIDE`` at most, and once there are distances too near and too far, between them.
    A step that starts uphill (the minimum lies behind theta) is refused as ever. But a rate that no update has chosen
    yet is a guess, and may be so large that its probes lie beyond the valley: until then, uphill by a factor ``HARM``
    means too far to tell. ``settled``: whether an earlier update chose the present rate, that of ``first``.
    """
    fit, low, high = first, 0.0, math.inf
    for added in range(MOST_FITS):
        wanted = _wanted(fit)
        if wanted is None and not settled and fit.loss_plus > HARM * fit.loss_zero:
            wanted = 0.0
        if wanted is None and low == 0.0:
            # Unsettled, the guess was too far and this is nearer; its step leads uphill still.
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
    # Out of probes: as far as the loss was seen to fall, or nearer than the probes, which all went too far.
    if low > 0.0:
        return Proposal(low)
    return Proposal(None if fit.fallback == "not finite" else max(wanted or 0.0, fit.eta / STRIDE), fit.fallback)


def _wanted(fit: Fit) -> float | None:
    """Where the minimum seems to be: 0 for too near to tell, infinity for beyond; None for behind theta."""
    if fit.fallback == "not finite":
        return 0.0
    if fit.curvature <= 0.0:
        return math.inf if fit.slope > 0.0 else None
    minimum = fit.slope / fit.curvature
    return max(0.0, minimum) if minimum > -fit.eta / STRIDE else None


def _unsettled() -> Memory:
    return {"settled": 0}


def _search(memory: Memory, fit: Fit, probe: Probe) -> tuple[Proposal, Memory]:
    """:func:`search`; the memory says whether it ever succeeded."""
    proposal = search(fit, probe, settled=bool(memory["settled"]))
    return proposal, memory if proposal.eta is None else {"settled": 1}


def _trust(memory: Memory, fit: Fit, probe: Probe) -> tuple[Proposal, Memory]:
    """Search freely until it first succeeds, which forgets where it started; later stay within ``[eta/2, 2 eta]``."""
    proposal, new = _search(memory, fit, probe)
    if memory["settled"] and proposal.eta is not None:
        proposal = Proposal(within_twice(fit.eta, proposal.eta))
    return proposal, new


SEARCH = Rule(
    name="search",
    formula=f"eta*, probed anew until it lies within a factor {TRUST:g} of where it was probed",
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
