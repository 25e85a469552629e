"""GradNorm: learned weights that balance the norms of the weighted gradients and the speeds of the two tasks."""

from __future__ import annotations

from search_spaces.fields import LINEAR, Field
from trainables.weightings.base import Gramian, Losses, Needs, Options, State, Weighting, Weights, require_gramian

_RATIO_LOW, _RATIO_HIGH = 1e-6, 1e6
"""Bounds of a loss ratio, so that the relative rates stay defined if a loss reaches zero or changes sign."""


def loss_ratio(first: float | None, now: float) -> float:
    """The remaining share of a loss, in (0, inf): small for a task that has trained fast; 1 without a first value.

    A positive loss is minimised towards 0: ``now/first``, the paper's ratio. A negative one is a maximised loss with
    its sign changed (``l_f = -L_F``): ``L_F/L_F(0)`` grows as forgetting succeeds, which GradNorm would take for slow
    training and answer with ever more weight. Its inverse ``first/now`` falls with progress, as the method expects. It
    is capped at 1, because token weights (wga, satimp) return a loss of forgotten tokens to 0. This is an adaptation
    that is not in the paper.
    """
    if first is None:
        return 1.0
    if first > 0:
        ratio = now / first
    elif now >= 0:
        ratio = 1.0
    else:
        ratio = min(first / now, 1.0)
    return max(min(ratio, _RATIO_HIGH), _RATIO_LOW)  # the first argument lets a NaN through


def slopes(
    weights: tuple[float, float], norms: tuple[float, float], ratios: tuple[float, float], alpha: float
) -> tuple[float, float]:
    """The derivatives with respect to w of ``L_GN = sum_i |w_i n_i - mean(w n) r_i^alpha|``, the second term held
    constant.

    ``r_i`` is the loss ratio of the task over the mean ratio, ``n_i`` the norm of its unweighted gradient. The
    derivative is ``sign(w_i n_i - mean(w n) r_i^alpha) n_i`` and costs no further backward pass.
    """
    mean_ratio = (ratios[0] + ratios[1]) / 2.0
    mean_norm = (weights[0] * norms[0] + weights[1] * norms[1]) / 2.0

    def slope(weight: float, norm: float, ratio: float) -> float:
        excess = weight * norm - mean_norm * (ratio / mean_ratio) ** alpha
        return excess / abs(excess) * norm if excess != 0 else 0.0

    return slope(weights[0], norms[0], ratios[0]), slope(weights[1], norms[1], ratios[1])


def weigh(losses: Losses, gramian: Gramian | None, state: State, options: Options) -> tuple[Weights, State]:
    """The weights in the state; the new state holds them after one descent step on L_GN, rescaled to sum to 2.

    The state holds ``w_r``, ``w_f`` and, once seen, the first losses that are not 0, ``first_r`` and ``first_f`` (a
    divergence from the target model starts at exactly 0, to which no ratio exists).

    The step is ``weight_lr dL_GN/dw / (n_r + n_f)``. Without the division, ``weight_lr`` would have no effect at
    gradient norms of 1e-6 and jump between the bounds at 1e6; published code leaves this to Adam. Weights are kept >=
    0; one that reaches 0 grows again while its gradient is not zero. Both gradients zero: the weights stay.
    """
    gramian = require_gramian(gramian)
    new = dict(state)
    for key, loss in (("first_r", losses.retain), ("first_f", losses.forget)):
        if key not in new and loss != 0:
            new[key] = loss
    norms = (gramian.rho, gramian.phi)
    total = norms[0] + norms[1]
    if total != 0:
        weights = (state["w_r"], state["w_f"])
        ratios = (loss_ratio(new.get("first_r"), losses.retain), loss_ratio(new.get("first_f"), losses.forget))
        slope_r, slope_f = slopes(weights, norms, ratios, options["alpha"])
        w_r = max(weights[0] - options["weight_lr"] * (slope_r / total), 0.0)
        w_f = max(weights[1] - options["weight_lr"] * (slope_f / total), 0.0)
        new["w_r"], new["w_f"] = 2.0 * w_r / (w_r + w_f), 2.0 * w_f / (w_r + w_f)
    return Weights(state["w_r"], state["w_f"]), new


WEIGHTING = Weighting(
    name="gradnorm",
    formula="w descends sum |w_i |g_i| - mean(w |g|) r_i^alpha|, r_i = relative loss ratio",
    needs=Needs.GRAMIAN,
    weigh=weigh,
    citation="Chen et al., GradNorm: Gradient Normalization for Adaptive Loss Balancing in Deep Multitask Networks, "
    "ICML 2018 (arXiv:1711.02257)",
    options=(
        Field(
            "alpha", 1.5, "how hard the slower task is favoured; 0 asks for equal gradient norms", low=0.0, high=10.0
        ).searched(0.5, 3.0, LINEAR, "GradNorm (arXiv:1711.02257): 1.5; gains for every value in (0, 3)"),
        Field("weight_lr", 0.025, "largest change of a weight in one step, before rescaling", above=0.0, high=1.0),
    ),
    init=lambda seed: {"w_r": 1.0, "w_f": 1.0},
)
