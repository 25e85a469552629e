"""DualProj: the mean gradient, projected onto the cone of directions that conflict with neither gradient."""

from __future__ import annotations

from trainables.weightings.base import Gramian, Needs, Weighting, Weights, of_gramian


def weights(gramian: Gramian) -> Weights:
    """``(max(1/2, b/(2 rho^2)), max(1/2, b/(2 phi^2)))``: the d nearest to the mean with ``g_r.d, g_f.d >= 0``.

    At most one of the two is above 1/2, and only under strong conflict (``b > rho^2`` or ``b > phi^2``). A zero
    gradient conflicts with nothing: (1/2, 1/2). Opposed gradients (k = 1): ``d = 0``.
    """
    rho, phi, k = gramian.rho, gramian.phi, gramian.k
    if rho == 0 or phi == 0:
        return Weights(0.5, 0.5)
    return Weights(max(k * (phi / rho) / 2.0, 0.5), max(k * (rho / phi) / 2.0, 0.5))


WEIGHTING = Weighting(
    name="dualproj",
    formula="max(1/2, -g_r.g_f/2/(|g_r|^2, |g_f|^2))",
    needs=Needs.GRAMIAN,
    weigh=of_gramian(weights),
    citation="Lopez-Paz and Ranzato, Gradient Episodic Memory for Continual Learning, NeurIPS 2017 (arXiv:1706.08840)",
)
