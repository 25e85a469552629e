"""Divide each loss by its own magnitude, which is treated as a constant."""

from __future__ import annotations

import sys

from trainables.weightings.base import Gramian, Losses, Needs, Options, State, Weighting, Weights


def _inverse(loss: float) -> float:
    magnitude = abs(loss)
    return 0.0 if magnitude < sys.float_info.min else 1.0 / magnitude  # 1/subnormal overflows


def weigh(losses: Losses, gramian: Gramian, state: State, options: Options) -> tuple[Weights, State]:
    """Return ``(1/|l_r|, 1/|l_f|)``. Rescaling a loss does not change the combined gradient.

    The weight of a zero loss (below 2.2e-308) is 0. The weight of a loss close to zero is very large, as published.
    """
    return Weights(_inverse(losses.retain), _inverse(losses.forget)), state


WEIGHTING = Weighting(
    name="lossnorm",
    formula="(1/|l_r|, 1/|l_f|), where l_r is the retain loss and l_f the forget loss",
    needs=Needs.LOSSES,
    weigh=weigh,
    citation="Bu, Jin et al., Unlearning as multi-task optimization: A normalized gradient difference approach with an "
    "adaptive learning rate, NAACL 2025 (arXiv:2410.22086)",
)
