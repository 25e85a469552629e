"""Nash-MTL: the Nash bargaining solution between the two tasks."""

from __future__ import annotations

import math

from trainables.weightings.base import Gramian, Needs, Weighting, Weights, of_gramian

_MIN_SLACK = 1e-12
"""The smallest value of 1 - k, where k is minus the cosine. Float32 gradients cannot resolve smaller values."""


def weights(gramian: Gramian) -> Weights:
    """Return the positive solution of ``G w = 1/w``, which is ``(1/rho, 1/phi)/sqrt(1 - k)``. Then ``|d| = sqrt(2)``.

    Here ``rho = |g_r|`` and ``phi = |g_f|``, and k is minus the cosine of the gradients. The direction is that of
    NGDiff. For opposed gradients (k -> 1), the solution is unbounded. So 1 - k is clamped to at least 1e-12. With this
    limit, ``|d|`` falls to 0 as k approaches 1.

    The weight of a zero gradient is 0, and the other weight is 1/norm. If both gradients are zero, both weights are 0.
    """
    rho, phi = gramian.rho, gramian.phi
    root = math.sqrt(max(1.0 - gramian.k, _MIN_SLACK))
    w_r = 1.0 / rho / root if rho != 0 else 0.0
    w_f = 1.0 / phi / root if phi != 0 else 0.0
    return Weights(w_r, w_f)


WEIGHTING = Weighting(
    name="nash-mtl",
    formula="(1/|g_r|, 1/|g_f|)/sqrt(1 - k), where k = -g_r.g_f/(|g_r| |g_f|)",
    needs=Needs.GRAMIAN,
    weigh=of_gramian(weights),
    citation="Navon et al., Multi-Task Learning as a Bargaining Game, ICML 2022 (arXiv:2202.01017)",
)
