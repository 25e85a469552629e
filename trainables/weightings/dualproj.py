"""DualProj: project the mean gradient onto the cone of directions that conflict with neither gradient."""

from __future__ import annotations

from trainables.weightings.base import Gramian, Needs, Weighting, Weights, of_gramian


def weights(gramian: Gramian) -> Weights:
    """Return ``(max(1/2, b/(2 rho^2)), max(1/2, b/(2 phi^2)))``.

    Here ``rho = |g_r|``, ``phi = |g_f|`` and ``b = -g_r.g_f``. The direction ``d`` is the nearest to the mean gradient
    of all directions with ``g_r.d >= 0`` and ``g_f.d >= 0``. If a gradient is zero, the weights are (1/2, 1/2). For
    opposed gradients, ``d = 0``.
    """
    rho, phi, k = gramian.rho, gramian.phi, gramian.k
    if rho == 0 or phi == 0:
        return Weights(0.5, 0.5)
    w_r = max(k * (phi / rho) / 2.0, 0.5)  # b = k rho phi
    w_f = max(k * (rho / phi) / 2.0, 0.5)
    return Weights(w_r, w_f)


WEIGHTING = Weighting(
    name="dualproj",
    formula="(max(1/2, b/(2 |g_r|^2)), max(1/2, b/(2 |g_f|^2))), where b = -g_r.g_f",
    needs=Needs.GRAMIAN,
    weigh=of_gramian(weights),
    citation="Lopez-Paz and Ranzato, Gradient Episodic Memory for Continual Learning, NeurIPS 2017 (arXiv:1706.08840)",
)
