"""What a rule of AutoLR is: a pure map from its memory and the parabolas it sees to the new learning rate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trainables.auto_lr.guard import Guard, Memory
from trainables.auto_lr.parabola import Fit

Probe = Callable[[float], Fit]
"""Fits a parabola at another distance from theta; two evaluations of ``L_R``."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a rule wants of one update: the new rate, or None to keep the present one.

    ``reason`` says why no minimum was found: for a rate that is kept, or for one that is taken all the same.
    ``is_minimum``: the rate is meant to be the one found, ``eta*``, and is another only where it is held back.
    """

    eta: float | None
    reason: str | None = None
    is_minimum: bool = True


Propose = Callable[[Memory, Fit, Probe], tuple[Proposal, Memory]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, as an entry of the table.

    ``propose(memory, fit, probe) -> (proposal, new_memory)`` is pure but for its probes. ``fit`` is the parabola at the
    present rate, ``fit.eta``. ``init()`` makes the memory of a run that has not updated yet.
    ``guard``: what becomes of the rate once it is chosen, and of a run with a number that is none.
    """

    name: str
    formula: str
    citation: str
    propose: Propose
    init: Callable[[], Memory] = dict
    guard: Guard | None = None


def of_one_fit(choose: Callable[[float, float], float]) -> Propose:
    """The ``propose`` of a rule that is ``choose(eta, eta*)`` wherever the fit has a minimum ahead, without memory."""

    def propose(memory: Memory, fit: Fit, probe: Probe) -> tuple[Proposal, Memory]:
        return Proposal(None if fit.eta_star is None else choose(fit.eta, fit.eta_star), fit.fallback), memory

    return propose


def within_twice(eta: float, wanted: float) -> float:
    """``wanted`` clipped to ``[eta/2, 2 eta]``."""
    return min(max(wanted, eta / 2.0), 2.0 * eta)
