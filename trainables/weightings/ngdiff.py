"""Normalized gradient difference: the sum of the two unit gradients."""

from __future__ import annotations

from trainables.weightings.base import Gramian, Needs, Weighting, Weights, of_gramian


def weights(gramian: Gramian) -> Weights:
    """Return ``(1/rho, 1/phi)``, so ``d = g_r/|g_r| + g_f/|g_f|`` conflicts with neither gradient (Lemma 2).

    Here ``rho = |g_r|`` and ``phi = |g_f|``. The weight of a zero gradient is 0, and the other weight is 1/norm. If
    both gradients are zero, both weights are 0.
    """
    rho, phi = gramian.rho, gramian.phi
    w_r = 1.0 / rho if rho != 0 else 0.0
    w_f = 1.0 / phi if phi != 0 else 0.0
    return Weights(w_r, w_f)


WEIGHTING = Weighting(
    name="ngdiff",
    formula="(1/|g_r|, 1/|g_f|)",
    needs=Needs.GRAMIAN,
    weigh=of_gramian(weights),
    citation="Bu, Jin et al., Unlearning as multi-task optimization: A normalized gradient difference approach with an "
    "adaptive learning rate, NAACL 2025 (arXiv:2410.22086)",
)
