"""MGDA: the shortest convex combination of the two gradients."""

from __future__ import annotations

from trainables.weightings.base import Gramian, Needs, Weighting, Weights, of_gramian


def weights(gramian: Gramian) -> Weights:
    """Return ``(c, 1 - c)`` with ``c = clip((phi^2 + b)/(rho^2 + phi^2 + 2b), 0, 1)``, which minimises ``|d|``.

    Here ``rho = |g_r|``, ``phi = |g_f|`` and ``b = -g_r.g_f``. If the gradients are equal or both zero, the weights are
    (1/2, 1/2). If only one gradient is zero, its weight is 1, so ``d = 0``: a Pareto stationary point. Opposed
    gradients also give ``d = 0``, with c = phi/(rho + phi).
    """
    max_norm = max(gramian.rho, gramian.phi)
    if max_norm == 0:
        return Weights(0.5, 0.5)
    # A common scale does not change the weights. In this scale, x is rho, y is phi, and b is x y (aligned - 1).
    x = gramian.rho / max_norm
    y = gramian.phi / max_norm
    aligned = 1.0 + gramian.k
    distance2 = (x - y) ** 2 + 2.0 * x * y * aligned  # |g_r - g_f|^2, without cancellation errors
    if distance2 == 0:
        return Weights(0.5, 0.5)
    w_r = max(min(y * ((y - x) + x * aligned) / distance2, 1.0), 0.0)
    w_f = max(min(x * ((x - y) + y * aligned) / distance2, 1.0), 0.0)  # 1 - w_r, exact even at 1e-24
    return Weights(w_r, w_f)


WEIGHTING = Weighting(
    name="mgda",
    formula="(c, 1 - c), where c = clip((|g_f|^2 - g_r.g_f)/|g_r - g_f|^2, 0, 1)",
    needs=Needs.GRAMIAN,
    weigh=of_gramian(weights),
    citation="Sener and Koltun, Multi-Task Learning as Multi-Objective Optimization, NeurIPS 2018 (arXiv:1810.04650)",
)
