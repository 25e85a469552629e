"""The scaling stage of RotoGrad: scale both gradients to a common length."""

from __future__ import annotations

from trainables.weightings.base import Gramian, Losses, Needs, Options, State, Weighting, Weights


def weigh(losses: Losses, gramian: Gramian, state: State, options: Options) -> tuple[Weights, State]:
    """Return ``(C/rho, C/phi)`` with ``C = sum alpha_i n_i`` and ``alpha_i = (n_i/n_i(0)) / sum_j (n_j/n_j(0))``.

    The gradient norms ``n_i`` are ``rho = |g_r|`` and ``phi = |g_f|``, and ``n_i(0)`` are the norms of the first step.
    The direction is that of NGDiff. The paper uses gradients of a shared representation; this function uses gradients
    of the parameters. The released code uses the norms of step 20 as ``n_i(0)``.

    The state holds the first norms that are not 0, ``first_r`` and ``first_f``. If a gradient is zero, the weights are
    (1, 1).
    """
    rho, phi = gramian.rho, gramian.phi
    new_state = dict(state)
    for key, norm in (("first_r", rho), ("first_f", phi)):
        if key not in new_state and norm != 0:
            new_state[key] = norm
    if rho == 0 or phi == 0:
        return Weights(1.0, 1.0), new_state
    ratio_r = rho / new_state["first_r"]
    ratio_f = phi / new_state["first_f"]
    alpha_r = ratio_r / (ratio_r + ratio_f)
    alpha_f = 1.0 - alpha_r
    w_r = alpha_r + alpha_f * (phi / rho)  # C / rho, where C = alpha_r rho + alpha_f phi
    w_f = alpha_r * (rho / phi) + alpha_f
    return Weights(w_r, w_f), new_state


WEIGHTING = Weighting(
    name="rotograd-scale",
    formula="(C/|g_r|, C/|g_f|), where C = sum_i alpha_i |g_i|, alpha_i is proportional to |g_i| divided by its first "
    "value, and the alpha_i sum to 1",
    needs=Needs.GRAMIAN,
    weigh=weigh,
    citation="Javaloy & Valera, RotoGrad: Gradient Homogenization in Multitask Learning, ICLR 2022 (arXiv:2103.02631), "
    "scaling stage only",
)
