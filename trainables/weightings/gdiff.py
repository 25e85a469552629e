"""Gradient difference: a fixed trade-off between the two losses."""

from __future__ import annotations

from collections.abc import Mapping

from trainables.options import Option
from trainables.weightings.base import Gramian, Losses, Needs, State, Weighting, Weights


def weigh(losses: Losses, gramian: Gramian | None, state: State, options: Mapping[str, float]) -> tuple[Weights, State]:
    """``(c, 1 - c)`` with the option ``c``: static linear scalarization, GDiff-0.9, GDiff-0.5, GDiff-0.1, ...

    At c = 1 and c = 0 both batches still run, so that history has both losses and batch statistics and dropout's draws
    are those of any other c. ``gd`` and ``ga`` are the same directions at half the cost.
    """
    c = options["c"]
    return Weights(c, 1.0 - c), state


WEIGHTING = Weighting(
    name="gdiff",
    formula="(c, 1 - c)",
    needs=Needs.LOSSES,
    weigh=weigh,
    citation="Liu et al., Continual Learning and Private Unlearning, CoLLAs 2022 (arXiv:2203.12817)",
    options=(Option("c", 0.5, 0.0, 1.0, "share of the retain loss: 1 only retains, 0 only forgets"),),
)
