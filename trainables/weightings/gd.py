"""Gradient descent on the retain loss alone."""

from __future__ import annotations

from trainables.weightings.base import Gramian, Losses, Needs, Options, State, Weighting, Weights


def weigh(losses: Losses, gramian: Gramian | None, state: State, options: Options) -> tuple[Weights, State]:
    """``(1, 0)`` always: the forget set is never looked at."""
    return Weights(1.0, 0.0), state


WEIGHTING = Weighting(
    name="gd",
    formula="(1, 0)",
    needs=Needs.RETAIN_ONLY,
    weigh=weigh,
    citation="Golatkar et al., Eternal Sunshine of the Spotless Net: Selective Forgetting in Deep Networks, "
    "CVPR 2020 (arXiv:1911.04933), its fine-tuning baseline",
)
