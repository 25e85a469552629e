"""The interface of an AutoLR rule: a pure function from its memory and the fitted parabolas to the new learning rate.
The interface of an AutoLR rule: a pure function from its memory and the fitted parabolas to the new learning rate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from trainables.auto_lr.parabola import Fit

Memory = Mapping[str, float]
"""A rule's memory between updates: JSON-able, saved with the run, replaced rather than mutated."""

Probe = Callable[[float], Fit]
"""Fits a parabola at another distance from theta, with two evaluations of ``L_R``."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """The result of a rule for one update: the new rate, or None to keep the present one.

    ``reason`` says why no minimum was found, whether or not the rate changes. ``is_minimum``: the rate is meant to be
    ``eta*``, so a different rate counts as clipped.
    """

    eta: float | None
    reason: str | None = None
    is_minimum: bool = True


Propose = Callable[[Memory, Fit, Probe], tuple[Proposal, Memory]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """Settings that apply from one choice of the rate to the next.

    Runs under a rule with a guard are also interpolated at their end (:mod:`trainables.run.interpolation`), unless
    their spec says otherwise.

    Attributes:
        annealed: the rate falls linearly to 0 over this last share of the run.
        cut: a restart after a loss or gradient that is not finite divides the rate by this.
    """

    annealed: float
    cut: float

    def share(self, step: int, steps: int) -> float:
        """Return the factor of the chosen rate for step ``step`` of ``steps``, counted from 1."""
        return min(1.0, (1.0 - (step - 1) / steps) / self.annealed)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule in the table of rules.

    ``propose(memory, fit, probe) -> (proposal, new_memory)`` is pure except for its probes. ``fit`` is the parabola at
    the present rate, ``fit.eta``. ``init()`` returns the memory before the first update. ``guard`` describes annealing
    and restarts, if the rule has them.
    """

    name: str
    formula: str
    citation: str
    propose: Propose
    init: Callable[[], Memory] = dict
    guard: Guard | None = None


def of_one_fit(choose: Callable[[float, float], float]) -> Propose:
    """Return the ``propose`` of a rule without memory: ``choose(eta, eta*)`` if the fit has a minimum ahead."""

    def propose(memory: Memory, fit: Fit, probe: Probe) -> tuple[Proposal, Memory]:
        return Proposal(None if fit.eta_star is None else choose(fit.eta, fit.eta_star), fit.fallback), memory

    return propose


def within_twice(eta: float, wanted: float) -> float:
    """Return ``wanted`` clipped to ``[eta/2, 2 eta]``."""
    return min(max(wanted, eta / 2.0), 2.0 * eta)
