"""The interface of an AutoLR rule. A rule computes the new learning rate from its memory and from fitted parabolas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from trainables.auto_lr.parabola import Fit

Memory = Mapping[str, float]
"""The values that a rule keeps between updates and saves with the run. A memory is replaced, never mutated."""

Probe = Callable[[float], Fit]
"""A function that evaluates ``L_R`` at a distance on both sides of the weights, and returns the fitted parabola."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """The result of a rule for one update: the new rate, or None to keep the current rate.

    ``reason`` is the reason why no minimum was found (the rule may still propose a rate); None if a minimum was found.
    If ``is_minimum``, the rule aims at the minimum ``eta*``, so a rate other than ``eta*`` counts as clipped.
    """

    eta: float | None
    reason: str | None = None
    is_minimum: bool = True


Propose = Callable[[Memory, Fit, Probe], tuple[Proposal, Memory]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """The settings for annealing and for restarts.

    At the end of a run with a guard, the weights are interpolated (:mod:`trainables.run.interpolation`), unless the
    spec disables interpolation.

    Attributes:
        annealed: the rate falls linearly to 0 over this last share of the run.
        cut: the number by which the rate is divided at a restart. A restart follows a loss or gradient that is not
            finite.
    """

    annealed: float
    cut: float

    def share(self, step: int, steps: int) -> float:
        """Return the factor by which the chosen rate is multiplied at step ``step`` of ``steps``, counted from 1."""
        return min(1.0, (1.0 - (step - 1) / steps) / self.annealed)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of AutoLR.

    ``propose(memory, fit, probe) -> (proposal, new_memory)`` is a pure function except for its calls of ``probe``.
    ``fit`` is the parabola at the current rate, ``fit.eta``. ``init()`` returns the memory before the first update.
    ``guard`` has the settings for annealing and restarts; None if the rule does not use them.
    """

    name: str
    formula: str
    citation: str
    propose: Propose
    init: Callable[[], Memory] = dict
    guard: Guard | None = None


def of_one_fit(choose: Callable[[float, float], float]) -> Propose:
    """Return the ``propose`` of a rule without memory. The rule proposes ``choose(eta, eta*)`` if ``eta*`` exists."""

    def propose(memory: Memory, fit: Fit, probe: Probe) -> tuple[Proposal, Memory]:
        return Proposal(None if fit.eta_star is None else choose(fit.eta, fit.eta_star), fit.fallback), memory

    return propose


def within_twice(eta: float, wanted: float) -> float:
    """Return ``wanted`` clipped to ``[eta/2, 2 eta]``."""
    return min(max(wanted, eta / 2.0), 2.0 * eta)
