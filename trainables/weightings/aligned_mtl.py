"""Aligned-MTL: the mean of the gradients after scaling their principal components to equal length."""

from __future__ import annotations

import math
import sys

from trainables.weightings.base import Gramian, Needs, Weighting, Weights, of_gramian

_RANK_ONE = 8.0 * sys.float_info.epsilon
"""At or below this, ``1 - k^2`` is rounding, and the two gradients span one dimension."""


def weights(gramian: Gramian) -> Weights:
    """``sqrt(lmin) G^(-1/2) (1/2, 1/2)``, with lmin the smaller eigenvalue of the Gramian G.

    With ``s = sqrt(det G)``, ``t = sqrt(tr G + 2s)``, ``lmax`` the larger eigenvalue and ``b = -g_r.g_f`` this is
    ``(phi^2 + s + b, rho^2 + s + b)/(2 t sqrt(lmax))``, which does not divide by a vanishing number.

    The published method does not guarantee non-negative weights: if the gradients agree and differ much in length, the
    weight of the longer one is negative.

    Dependent gradients (k = +-1, or one is zero): the method drops the empty dimension, so d is the plain mean of the
    gradients: (1/2, 1/2). Both zero: the same.
    """
    rho, phi, k = gramian.rho, gramian.phi, gramian.k
    sine2 = (1.0 - k) * (1.0 + k)
    if rho == 0 or phi == 0 or sine2 <= _RANK_ONE:
        return Weights(0.5, 0.5)
    longest = max(rho, phi)
    x, y, sine = rho / longest, phi / longest, math.sqrt(sine2)  # a common scale does not change the weights
    t = math.sqrt(x * x + y * y + 2.0 * x * y * sine)
    largest = (x * x + y * y + math.hypot((x - y) * (x + y), 2.0 * x * y * k)) / 2.0
    scale = 2.0 * t * math.sqrt(largest)
    return Weights(y * (y + x * (sine + k)) / scale, x * (x + y * (sine + k)) / scale)


WEIGHTING = Weighting(
    name="aligned-mtl",
    formula="sqrt(lmin) G^(-1/2) (1/2, 1/2)",
    needs=Needs.GRAMIAN,
    weigh=of_gramian(weights),
    citation="Senushkin et al., Independent Component Alignment for Multi-Task Learning, CVPR 2023 (arXiv:2305.19000)",
)
