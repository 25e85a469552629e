"""Impartial multi-task learning, gradient part: a direction with equal projections onto the two unit gradients."""

from __future__ import annotations

from trainables.weightings.base import Gramian, Needs, Weighting, Weights, of_gramian


def weights(gramian: Gramian) -> Weights:
    """Return ``(phi, rho)/(rho + phi)``: the weights sum to 1, and ``d.g_r/rho = d.g_f/phi``.

    Here ``rho = |g_r|`` and ``phi = |g_f|``. The published form ``w_f = g_r.u / ((g_r - g_f).u)`` with
    ``u = g_r/rho - g_f/phi`` gives the same weight, but is 0/0 for aligned gradients.

    The weight of a zero gradient is 0, and the other weight is 1. If both gradients are zero, both weights are 0.
    """
    rho, phi = gramian.rho, gramian.phi
    if rho == 0 or phi == 0:
        return Weights(0.0 if rho == 0 else 1.0, 0.0 if phi == 0 else 1.0)
    total = rho + phi
    return Weights(phi / total, rho / total)


WEIGHTING = Weighting(
    name="imtl-g",
    formula="(|g_f|, |g_r|)/(|g_r| + |g_f|)",
    needs=Needs.GRAMIAN,
    weigh=of_gramian(weights),
    citation="Liu et al., Towards Impartial Multi-task Learning, ICLR 2021 (OpenReview:IMPnRXEWpvr)",
)
