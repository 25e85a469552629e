"""Minimise only the forget objective. With the objective ``-L_F``, the method is gradient ascent."""

from __future__ import annotations

from trainables.weightings.base import Needs, Weighting, Weights

WEIGHTING = Weighting(
    name="ga",
    formula="(0, 1)",
    needs=Needs.FORGET_ONLY,
    weigh=lambda losses, gramian, state, options: (Weights(0.0, 1.0), state),
    citation="Jang et al., Knowledge Unlearning for Mitigating Privacy Risks in Language Models, "
    "ACL 2023 (arXiv:2210.01504)",
)
