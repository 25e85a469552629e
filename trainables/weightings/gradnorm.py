"""GradNorm: learn weights that balance the norms of the weighted gradients and the training speeds of the two tasks."""

from __future__ import annotations

from search_spaces.common.fields import LINEAR, Field
from trainables.weightings.base import Gramian, Losses, Needs, Options, State, Weighting, Weights

_RATIO_LOW, _RATIO_HIGH = 1e-6, 1e6
"""The bounds of a loss ratio. The bounds apply if a loss reaches zero or changes sign."""


def loss_ratio(first: float | None, current: float) -> float:
    """Return the ratio of a loss to its first value, in (0, inf). A small ratio means that the task has trained fast.

    If the first loss is positive, the ratio is the paper's ``current/first``. If the first loss is negative
    (``l_f = -L_F``), the magnitude of the loss grows with progress, so the ratio is ``first/current``, capped at 1. The
    cap is needed for the objectives wga and satimp, because the losses of forgotten tokens return to 0. The paper has
    neither the inverse nor the cap. If the first loss is None, the ratio is 1.
    """
    if first is None:
        return 1.0
    if first > 0:
        ratio = current / first
    elif current >= 0:
        ratio = 1.0
    else:
        # The ratio current/first grows with progress: GradNorm would treat that as slow training and raise the weight.
        ratio = min(first / current, 1.0)
    return max(min(ratio, _RATIO_HIGH), _RATIO_LOW)


def slopes(
    weights: tuple[float, float], norms: tuple[float, float], ratios: tuple[float, float], alpha: float
) -> tuple[float, float]:
    """Return the derivatives of ``L_GN = sum_i |w_i n_i - mean(w n) r_i^alpha|`` with respect to w.

    ``r_i`` is a task's loss ratio divided by the mean ratio, and ``n_i`` is the norm of the task's unweighted gradient.
    The term ``mean(w n) r_i^alpha`` is held constant.
    """
    mean_ratio = (ratios[0] + ratios[1]) / 2.0
    mean_norm = (weights[0] * norms[0] + weights[1] * norms[1]) / 2.0

    def slope(weight: float, norm: float, ratio: float) -> float:
        excess = weight * norm - mean_norm * (ratio / mean_ratio) ** alpha
        return excess / abs(excess) * norm if excess != 0 else 0.0

    return slope(weights[0], norms[0], ratios[0]), slope(weights[1], norms[1], ratios[1])


def weigh(losses: Losses, gramian: Gramian, state: State, options: Options) -> tuple[Weights, State]:
    """Return the weights in the state, and a new state with the weights for the next step.

    The new weights result from one descent step on L_GN and are rescaled to sum to 2. The step is
    ``weight_lr dL_GN/dw / (n_r + n_f)``. The division makes the step independent of the gradients' scale. Published
    code uses Adam instead.

    The state holds the weights ``w_r`` and ``w_f``, and the first losses that were not 0, ``first_r`` and ``first_f``.
    If both gradients are zero, the weights do not change.
    """
    new_state = dict(state)
    for key, loss in (("first_r", losses.retain), ("first_f", losses.forget)):
        if key not in new_state and loss != 0:
            new_state[key] = loss
    w_r = state["w_r"]
    w_f = state["w_f"]
    n_r = gramian.rho
    n_f = gramian.phi
    if n_r + n_f != 0:
        ratio_r = loss_ratio(new_state.get("first_r"), losses.retain)
        ratio_f = loss_ratio(new_state.get("first_f"), losses.forget)
        slope_r, slope_f = slopes((w_r, w_f), (n_r, n_f), (ratio_r, ratio_f), options["alpha"])
        next_r = max(w_r - options["weight_lr"] * (slope_r / (n_r + n_f)), 0.0)
        next_f = max(w_f - options["weight_lr"] * (slope_f / (n_r + n_f)), 0.0)
        new_state["w_r"] = 2.0 * next_r / (next_r + next_f)
        new_state["w_f"] = 2.0 * next_f / (next_r + next_f)
    return Weights(w_r, w_f), new_state


WEIGHTING = Weighting(
    name="gradnorm",
    formula="weights w from gradient descent on sum_i |w_i |g_i| - mean_j(w_j |g_j|) r_i^alpha|, where r_i is the "
    "relative inverse training rate of task i",
    needs=Needs.GRAMIAN,
    weigh=weigh,
    citation="Chen et al., GradNorm: Gradient Normalization for Adaptive Loss Balancing in Deep Multitask Networks, "
    "ICML 2018 (arXiv:1711.02257)",
    options=(
        Field(
            "alpha",
            1.5,
            "strength of the preference for the task that trains more slowly; 0 equalises the gradient norms",
            low=0.0,
            high=10.0,
        ).searched(
            0.5, 3.0, LINEAR, "GradNorm (arXiv:1711.02257) uses 1.5; every value in (0, 3) improves its results"
        ),
        Field("weight_lr", 0.025, "maximum change of a weight in one step, before rescaling", above=0.0, high=1.0),
    ),
    init=lambda seed: {"w_r": 1.0, "w_f": 1.0},
)
