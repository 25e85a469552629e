"""GradVac: if the cosine of the gradients is below its moving average, turn the gradients towards each other."""

from __future__ import annotations

import math

from search_spaces.common.fields import LOG, Field
from trainables.weightings.base import Gramian, Losses, Needs, Options, State, Weighting, Weights

_MAX_TARGET = 1.0 - 1e-12
"""The highest target similarity. The cap limits the weights to 7e5; a target of 1 would need infinite weights."""


def weigh(losses: Losses, gramian: Gramian, state: State, options: Options) -> tuple[Weights, State]:
    """Turn the two gradients towards each other, and return the weights of their sum.

    The similarity s is the cosine of the two gradients. If s is below the target t, each gradient is changed to

        g_i + (|g_i|/|g_j|) q g_j,    q = (t sqrt(1-s^2) - s sqrt(1-t^2))/sqrt(1-t^2).

    The changed gradient has cosine t with ``g_j``. If s is at least t, q is 0. The weights are
    ``(1 + q phi/rho, 1 + q rho/phi)`` with ``rho = |g_r|`` and ``phi = |g_f|``.

    Then t becomes ``(1 - ema_beta) t + ema_beta s``. The state stores t as ``similarity``. In the first step, t is the
    option ``target``. With ``ema_beta = 0``, t is fixed. With ``ema_beta = 0`` and ``target = 0``, the method is
    PCGrad.

    If a gradient is zero, the weights are (1, 1), and the state does not change.
    """
    rho, phi = gramian.rho, gramian.phi
    if rho == 0 or phi == 0:
        return Weights(1.0, 1.0), state
    s = -gramian.k
    t = state.get("similarity", options["target"])
    q = 0.0
    if s < t:
        capped_t = min(t, _MAX_TARGET)
        sine_ratio = math.sqrt((1.0 - s) * (1.0 + s)) / math.sqrt((1.0 - capped_t) * (1.0 + capped_t))
        q = max(capped_t * sine_ratio - s, 0.0)  # rounding, or a target above the cap, could make q negative
    beta = options["ema_beta"]
    new_t = (1.0 - beta) * t + beta * s
    return Weights(1.0 + q * (phi / rho), 1.0 + q * (rho / phi)), {"similarity": new_t}


WEIGHTING = Weighting(
    name="gradvac",
    formula="(1 + q |g_f|/|g_r|, 1 + q |g_r|/|g_f|), where q raises a lower cosine of the gradients to its moving "
    "average",
    needs=Needs.GRAMIAN,
    weigh=weigh,
    citation="Wang et al., Gradient Vaccine: Investigating and Improving Multi-task Optimization in Massively "
    "Multilingual Models, ICLR 2021 (arXiv:2010.05874)",
    options=(
        Field(
            "ema_beta",
            1e-2,
            "weight of the current cosine in the moving average; with 0, the average keeps its initial value",
            low=0.0,
            high=1.0,
        ).searched(0.001, 0.5, LOG, "GradVac (arXiv:2010.05874): 0.01"),
        Field("target", 0.0, "initial value of the cosine's moving average", low=-1.0, high=1.0),
    ),
)
