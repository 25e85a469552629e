"""The forget objective alone: gradient ascent when that objective is ``-L_F``."""

from __future__ import annotations

from trainables.weightings.base import Gramian, Losses, Needs, Options, State, Weighting, Weights


def weigh(losses: Losses, gramian: Gramian | None, state: State, options: Options) -> tuple[Weights, State]:
    """``(0, 1)`` always: the retain set is never looked at."""
    return Weights(0.0, 1.0), state


WEIGHTING = Weighting(
    name="ga",
    formula="(0, 1)",
    needs=Needs.FORGET_ONLY,
    weigh=weigh,
    citation="Jang et al., Knowledge Unlearning for Mitigating Privacy Risks in Language Models, "
    "ACL 2023 (arXiv:2210.01504)",
)
