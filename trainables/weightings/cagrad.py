"""CAGrad: the direction with the best worst-case improvement within a ball around the mean gradient."""

from __future__ import annotations

import math

from search_spaces.common.fields import LINEAR, Field
from trainables.weightings.base import Gramian, Losses, Needs, Options, State, Weighting, Weights


def weights(gramian: Gramian, alpha: float) -> Weights:
    """Return the weights of the direction d that maximises ``min(g_r.d, g_f.d)`` over ``|d - g0| <= alpha |g0|``.

    Here ``g0 = (g_r + g_f)/2`` is the mean gradient.

    By duality ``d = g0 + l g_w`` with ``g_w = w g_r + (1-w) g_f`` and ``l = alpha |g0|/|g_w|``, where w in [0, 1]
    minimises the convex ``F(w) = g_w.g0 + alpha |g0| |g_w|``. The weights are ``(1/2 + l w, 1/2 + l (1-w))``. For two
    gradients, w has a closed form; the published code iterates. Let ``e = g_r - g_f``, let psi be the angle between e
    and g0, and let ``chi = cos(psi)``. If ``|chi| < alpha``, then ``F'(w) = 0`` gives

        w = 1/2 - |g0|/|e| (chi + chi sin(psi)/sqrt(alpha^2 - chi^2)),    l = sqrt(alpha^2 - chi^2)/sin(psi).

    If this w is outside [0, 1], the minimum is at the nearer end of the interval. If ``|chi| >= alpha``, F is
    monotonic, and its minimum gives all weight to the shorter gradient.

    If a gradient is zero or ``g0 = 0``, the weights are (1/2, 1/2). For equal gradients, w is 1/2. For opposed
    gradients and alpha > 1, ``d = 0``, and the weights are (w, 1-w).
    """
    rho, phi, k = gramian.rho, gramian.phi, gramian.k
    if rho == 0 or phi == 0:
        return Weights(0.5, 0.5)
    max_norm = max(rho, phi)
    x = rho / max_norm  # a common scale does not change the weights
    y = phi / max_norm
    e = math.sqrt((x - y) ** 2 + 2.0 * x * y * (1.0 + k))
    g0 = math.sqrt((x - y) ** 2 + 2.0 * x * y * (1.0 - k)) / 2.0
    if g0 == 0 or alpha == 0:
        return Weights(0.5, 0.5)
    if e == 0:
        return Weights(0.5 + alpha / 2.0, 0.5 + alpha / 2.0)
    chi = (x - y) * (x + y) / (2.0 * e * g0)
    sin_psi = x * y * math.sqrt((1.0 - k) * (1.0 + k)) / (e * g0)
    if abs(chi) < alpha:
        root = math.sqrt((alpha - chi) * (alpha + chi))
        w = 0.5 - g0 / e * (chi + chi * sin_psi / root)
        if 0.0 < w < 1.0:
            if sin_psi == 0:
                return Weights(w, 1.0 - w)
            factor = root / sin_psi  # l in the formulas above
            return Weights(0.5 + factor * w, 0.5 + factor * (1.0 - w))
        is_retain_end = w >= 1.0
    else:
        is_retain_end = chi < 0.0
    if is_retain_end:
        return Weights(0.5 + alpha * g0 / x, 0.5)
    return Weights(0.5, 0.5 + alpha * g0 / y)


def weigh(losses: Losses, gramian: Gramian, state: State, options: Options) -> tuple[Weights, State]:
    """Return :func:`weights` for the option ``alpha``, which the paper calls c."""
    return weights(gramian, options["alpha"]), state


WEIGHTING = Weighting(
    name="cagrad",
    formula="the direction d that maximises min(g_r.d, g_f.d) subject to |d - g0| <= alpha |g0|, "
    "where g0 = (g_r + g_f)/2",
    needs=Needs.GRAMIAN,
    weigh=weigh,
    citation="Liu et al., Conflict-Averse Gradient Descent for Multi-task Learning, NeurIPS 2021 (arXiv:2110.14048)",
    options=(
        Field(
            "alpha",
            0.4,
            "maximum distance of d from g0, divided by |g0|; 0 gives the mean gradient, and large values approach "
            "MGDA. CAGrad converges if alpha is below 1",
            low=0.0,
        ).searched(0.1, 0.9, LINEAR, "CAGrad (arXiv:2110.14048) uses 0.1 to 0.9; it converges if alpha is below 1"),
    ),
)
