"""The rules ``search`` and ``trust``: probe at different distances until the parabola's minimum is near the probe."""

from __future__ import annotations

import math

from trainables.auto_lr.rule import Fit, Memory, Probe, Proposal, Rule, within_twice

TRUST = 2.0
"""A parabola's minimum is trusted if the minimum is within this factor of the probe's distance."""

STRIDE = 4.0
"""The maximum factor by which the probe's distance changes from one probe to the next."""

HARM = 1.1
"""Before the first success, a rate is rejected if its step multiplies the retain loss by more than this factor."""

MOST_FITS = 6
"""The maximum number of fits in one update. These fits can change the current rate by a factor of up to ``2 * 4^5``."""


def search(first: Fit, probe: Probe, *, settled: bool) -> Proposal:
    """Probe at different distances ``h`` until the fitted parabola's minimum is within a factor ``TRUST`` of ``h``.

    A parabola through ``x = 0, ±h`` is accurate only near ``h``. Far below ``h``, float32 rounding errors of the losses
    dominate. Far above ``h``, the loss is not a parabola. So a minimum is trusted only near ``h``. Otherwise the next
    ``h`` is nearer to the minimum, differs by a factor of at most ``STRIDE``, and lies between the distances that were
    too small and too large.

    If the parabola rises along the step (its minimum is at x < 0), the search fails. Before the first success, however,
    the rate is only a guess, and the probes may be beyond the minimum. Until then, a probe that raises the loss by a
    factor of ``HARM`` counts as too far. ``settled`` is whether an earlier update chose the current rate.
    """
    fit, low, high = first, 0.0, math.inf
    for added in range(MOST_FITS):
        wanted = _wanted(fit)
        if wanted is None and not settled and fit.loss_plus > HARM * fit.loss_zero:
            wanted = 0.0
        if wanted is None and low == 0.0:
            # If not settled, earlier probes were too far. Use this smaller rate, although its step raises the loss.
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
    # No fits remain: take the largest rate that was too small or, if all rates were too large, a smaller rate.
    if low > 0.0:
        return Proposal(low)
    return Proposal(None if fit.fallback == "not finite" else max(wanted or 0.0, fit.eta / STRIDE), fit.fallback)


def _wanted(fit: Fit) -> float | None:
    """Return the estimated position x of the minimum: 0 if x is too close to resolve, infinity if x is far beyond the
    probe, and None if x < 0."""
    if fit.fallback == "not finite":
        return 0.0
    if fit.curvature <= 0.0:
        return math.inf if fit.slope > 0.0 else None
    minimum = fit.slope / fit.curvature
    return max(0.0, minimum) if minimum > -fit.eta / STRIDE else None


def _unsettled() -> Memory:
    return {"settled": 0}


def _search(memory: Memory, fit: Fit, probe: Probe) -> tuple[Proposal, Memory]:
    """Propose a rate by :func:`search`. The memory records whether an update has succeeded."""
    proposal = search(fit, probe, settled=bool(memory["settled"]))
    return proposal, memory if proposal.eta is None else {"settled": 1}


def _trust(memory: Memory, fit: Fit, probe: Probe) -> tuple[Proposal, Memory]:
    """Search without limits until the first success, so that the initial rate has no influence. Later, clip the result
    to ``[eta/2, 2 eta]``."""
    proposal, new = _search(memory, fit, probe)
    if memory["settled"] and proposal.eta is not None:
        proposal = Proposal(within_twice(fit.eta, proposal.eta))
    return proposal, new


SEARCH = Rule(
    name="search",
    formula=f"eta*, probed again at eta* until eta* is within a factor {TRUST:g} of the probed rate",
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
