"""PCGrad: if the gradients conflict, project each gradient onto the other's normal plane. Then sum the gradients."""

from __future__ import annotations

from trainables.weightings.base import Gramian, Needs, Weighting, Weights, of_gramian


def weights(gramian: Gramian) -> Weights:
    """Return ``(1 + max(b, 0)/rho^2, 1 + max(b, 0)/phi^2)`` with ``b = -g_r.g_f``.

    Here ``rho = |g_r|`` and ``phi = |g_f|``. If a gradient is zero, the weights are (1, 1). For opposed gradients,
    ``d = 0``.
    """
    rho, phi = gramian.rho, gramian.phi
    if rho == 0 or phi == 0:
        return Weights(1.0, 1.0)
    conflict = max(gramian.k, 0.0)  # max(b, 0) / (rho phi)
    return Weights(1.0 + conflict * (phi / rho), 1.0 + conflict * (rho / phi))


WEIGHTING = Weighting(
    name="pcgrad",
    formula="(1 + b/|g_r|^2, 1 + b/|g_f|^2), where b = max(-g_r.g_f, 0)",
    needs=Needs.GRAMIAN,
    weigh=of_gramian(weights),
    citation="Yu et al., Gradient Surgery for Multi-Task Learning, NeurIPS 2020 (arXiv:2001.06782)",
)
