"""PCGrad as printed in the NGDiff paper: one projection, even without conflict. Use it only to reproduce that paper."""

from __future__ import annotations

from trainables.weightings.base import Gramian, Losses, Needs, Options, State, Weighting, Weights


def weigh(losses: Losses, gramian: Gramian, state: State, options: Options) -> tuple[Weights, State]:
    """Return ``(1 - g_r.g_f/rho^2, 1)``: the forget gradient is projected onto the normal plane of the retain gradient.

    PCGrad itself projects both gradients, but only if they conflict. If ``g_r.g_f > rho^2`` with ``rho = |g_r|``, then
    ``w_r`` is negative, and ``c_t = w_r/(w_r + w_f)`` is outside [0, 1]. If the gradients conflict, ``g_f.d`` can be
    negative, so the step can raise the forget loss. ``violations`` in the state counts the steps in which ``w_r`` or
    ``g_f.d`` was negative.

    If a gradient is zero, the weights are (1, 1).
    """
    rho, phi, k = gramian.rho, gramian.phi, gramian.k
    w_r = 1.0 + k * (phi / rho) if rho != 0 else 1.0
    raises_forget = phi * (1.0 - k * k) < k * rho  # g_f.d = phi (phi (1 - k^2) - k rho) < 0
    is_violated = w_r < 0 or (phi > 0 and raises_forget)
    violations = state["violations"] + 1 if is_violated else state["violations"]
    return Weights(w_r, 1.0), {"violations": violations}


WEIGHTING = Weighting(
    name="pcgrad-paper",
    formula="(1 - g_r.g_f/|g_r|^2, 1)",
    needs=Needs.GRAMIAN,
    weigh=weigh,
    citation="Bu, Jin et al., Unlearning as multi-task optimization: A normalized gradient difference approach with an "
    "adaptive learning rate, NAACL 2025 (arXiv:2410.22086), PCGrad as printed in this paper",
    init=lambda seed: {"violations": 0},
)
