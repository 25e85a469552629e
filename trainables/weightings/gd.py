"""Gradient descent on the retain loss only."""

from __future__ import annotations

from trainables.weightings.base import Needs, Weighting, Weights

WEIGHTING = Weighting(
    name="gd",
    formula="(1, 0)",
    needs=Needs.RETAIN_ONLY,
    weigh=lambda losses, gramian, state, options: (Weights(1.0, 0.0), state),
    citation="Golatkar et al., Eternal Sunshine of the Spotless Net: Selective Forgetting in Deep Networks, "
    "CVPR 2020 (arXiv:1911.04933), the fine-tuning baseline",
)
