"""UPGrad: project each gradient onto the cone of directions that conflict with neither gradient; then take the mean."""

from __future__ import annotations

from trainables.weightings import pcgrad
from trainables.weightings.base import Gramian, Needs, Weighting, Weights, of_gramian


def weights(gramian: Gramian) -> Weights:
    """Return half of PCGrad's weights: ``(1 + max(b, 0)/rho^2, 1 + max(b, 0)/phi^2)/2``.

    Here ``rho = |g_r|``, ``phi = |g_f|`` and ``b = -g_r.g_f``. For two conflicting gradients, projection onto the cone
    is projection onto the other gradient's normal plane, as in PCGrad. If a gradient is zero, the weights are (1/2,
    1/2).
    """
    pcgrad_weights = pcgrad.weights(gramian)
    return Weights(pcgrad_weights.retain / 2.0, pcgrad_weights.forget / 2.0)


WEIGHTING = Weighting(
    name="upgrad",
    formula="((1 + b/|g_r|^2)/2, (1 + b/|g_f|^2)/2), where b = max(-g_r.g_f, 0)",
    needs=Needs.GRAMIAN,
    weigh=of_gramian(weights),
    citation="Quinton and Rey, Jacobian Descent for Multi-Objective Optimization, 2024 (arXiv:2406.16232)",
)
