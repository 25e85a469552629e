"""Aligned-MTL: scale the principal components of the gradients to equal length, then take the mean of the gradients."""

from __future__ import annotations

import math
import sys

from trainables.weightings.base import Gramian, Needs, Weighting, Weights, of_gramian

_RANK_ONE = 8.0 * sys.float_info.epsilon
"""If 1 minus the squared cosine of the gradients is at most this value, the gradients count as parallel or opposed."""


def weights(gramian: Gramian) -> Weights:
    """Return ``sqrt(lmin) G^(-1/2) (1/2, 1/2)``, where lmin is the smaller eigenvalue of the Gramian G.

    With ``s = sqrt(det G)``, ``t = sqrt(tr G + 2s)``, ``lmax`` the larger eigenvalue, ``b = -g_r.g_f``, ``rho = |g_r|``
    and ``phi = |g_f|``, the weights are ``(phi^2 + s + b, rho^2 + s + b)/(2 t sqrt(lmax))``. This form does not divide
    by a number close to zero.

    If the gradients agree and one gradient is much longer, the weight of the longer gradient is negative, as published.
    If the gradients are linearly dependent or a gradient is zero, the weights are (1/2, 1/2).
    """
    rho, phi, k = gramian.rho, gramian.phi, gramian.k
    sine2 = (1.0 - k) * (1.0 + k)
    if rho == 0 or phi == 0 or sine2 <= _RANK_ONE:
        return Weights(0.5, 0.5)
    sine = math.sqrt(sine2)
    # A common scale does not change the weights. In this scale, x is rho, y is phi, s is x y sine, and b is x y k.
    max_norm = max(rho, phi)
    x = rho / max_norm
    y = phi / max_norm
    t = math.sqrt(x * x + y * y + 2.0 * x * y * sine)
    lmax = (x * x + y * y + math.hypot((x - y) * (x + y), 2.0 * x * y * k)) / 2.0
    divisor = 2.0 * t * math.sqrt(lmax)
    w_r = y * (y + x * (sine + k)) / divisor
    w_f = x * (x + y * (sine + k)) / divisor
    return Weights(w_r, w_f)


WEIGHTING = Weighting(
    name="aligned-mtl",
    formula="sqrt(lmin) G^(-1/2) (1/2, 1/2), where lmin is the smaller eigenvalue of the gradients' Gram matrix G",
    needs=Needs.GRAMIAN,
    weigh=of_gramian(weights),
    citation="Senushkin et al., Independent Component Alignment for Multi-Task Learning, CVPR 2023 (arXiv:2305.19000)",
)
