"""How far the weights of a model are from the target's: metrics that need no forward pass."""

from __future__ import annotations

from functools import partial

from trainables.metrics.metric import LANGUAGE, VISION, Cost, Metric

_weights = partial(
    Metric,
    sets=("robustness",),
    modalities=(LANGUAGE, VISION),
    needs_target=True,
    descriptive=True,
    each_evaluation=True,
    cost=Cost.WEIGHTS,
)
METRICS = (
    _weights(
        name="target_distance",
        label="distance of the weights from the target",
        direction="max",
        formula="min(1, ||w - w0|| / ||w0||), where w are all weights of the model, with its adapter merged, and w0 "
        "those of the target",
        citation="Siddiqui et al., From Dormant to Deleted, 2025 (arXiv:2505.22310): a larger L2 distance from the "
        "original weights predicts more resistance to relearning",
        measure=lambda scores: min(scores.weight_changes.distance, 1.0),  # NaN stays NaN
    ),
    _weights(
        name="nf4_changed",
        label="share of weights whose 4-bit code differs from the target's",
        direction="max",
        formula="share of the weights whose NF4 code (16 values, blocks of 64 weights scaled by their largest absolute "
        "value) differs from that of the target's weight, over all matrices except embeddings and the head of a "
        "language model, from at most about 1024 random blocks; an adapter is merged",
        citation="arXiv:2605.16038, where updates are far smaller than the width of a 4-bit bin, so rounding removes "
        "them; NF4: Dettmers et al., QLoRA, NeurIPS 2023 (arXiv:2305.14314)",
        measure=lambda scores: scores.weight_changes.nf4_changed,
    ),
)
