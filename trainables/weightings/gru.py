"""GRU: if the forget gradient conflicts with a moving average of retain gradients, remove the conflicting part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from search_spaces.common.fields import LINEAR, Field
from trainables.weightings.base import Gradient, Gramian, Needs, Options, State, Weighting

if TYPE_CHECKING:
    from torch import Tensor


_CHUNK = 1 << 24
"""The number of elements that are converted to float64 at once."""


def combine(retain: Gradient, forget: Gradient, state: State, options: Options) -> tuple[Gradient, State]:
    """Return the direction ``g_f - s m + retain_weight g_r`` and the new moving average ``m`` of the retain gradient.

    The moving average is ``m <- ema_beta g_r + (1 - ema_beta) m``, and starts at 0. If ``g_f.m < 0``, then
    ``s = |g_f|/|m| max(cos, floor)`` with the cosine of ``g_f`` and ``m``; otherwise ``s = 0``. With the default
    ``floor = -1``, ``g_f - s m`` is orthogonal to ``m`` if there is a conflict. A higher floor removes less of a strong
    conflict. The published method does not minimise the retain loss (``retain_weight = 0``); the authors' code also has
    variants with ``retain_weight = 1``.

    If a gradient is zero, ``s = 0``. The state holds ``m``, one more gradient in memory. The authors'
    code (github.com/tmlr-group/GRU, no licence) has the same formula; this function was written from the paper.
    """
    beta = options["ema_beta"]
    previous: Gradient = state.get("average", [None] * len(retain))
    average = [_mix(g_r, m, beta) for g_r, m in zip(retain, previous, strict=True)]
    products = Gramian(_dot(average, average), _dot(average, forget), _dot(forget, forget))
    cosine = -products.k  # 0 if a gradient is zero
    direction = forget
    if cosine < 0:
        scale = products.phi / products.rho * max(cosine, options["floor"])
        direction = [_plus(g_f, m, -scale) for g_f, m in zip(forget, average, strict=True)]
    if options["retain_weight"] != 0:
        direction = [_plus(d, g_r, options["retain_weight"]) for d, g_r in zip(direction, retain, strict=True)]
    return direction, {"average": average}


def _dot(first: Gradient, second: Gradient) -> float:
    """Return the inner product of two gradients, summed in float64."""
    import torch

    products = [
        torch.dot(one.double(), other.double())
        for x, y in zip(first, second, strict=True)
        if x is not None and y is not None
        for one, other in zip(x.reshape(-1).split(_CHUNK), y.reshape(-1).split(_CHUNK), strict=True)
    ]
    return float(torch.stack(products).sum()) if products else 0.0


def _mix(g_r: Tensor | None, average: Tensor | None, beta: float) -> Tensor | None:
    if g_r is None:
        return None if average is None else (1.0 - beta) * average
    return beta * g_r if average is None else beta * g_r + (1.0 - beta) * average


def _plus(first: Tensor | None, second: Tensor | None, weight: float) -> Tensor | None:
    if second is None:
        return first
    return weight * second if first is None else first + weight * second


WEIGHTING = Weighting(
    name="gru",
    formula="g_f - min(g_f.m, 0)/|m|^2 m + retain_weight g_r, where m is a moving average of g_r",
    needs=Needs.GRADIENTS,
    combine=combine,
    buffers=1,
    citation="Wang et al., GRU: Mitigating the Trade-off between Unlearning and Retention for LLMs, ICML 2025 "
    "(arXiv:2503.09117)",
    options=(
        Field(
            "ema_beta",
            0.8,
            "weight of the current retain gradient in the moving average; with 1, there is no averaging",
            above=0.0,
            high=1.0,
        ).searched(0.5, 1.0, LINEAR, "GRU's code uses 0.6, 0.8 and 0.99"),
        Field("floor", -1.0, "lowest cosine whose conflict is removed completely", low=-1.0, high=0.0),
        Field(
            "retain_weight", 0.0, "weight of the retain gradient, which is added after the removal", low=0.0, high=1e4
        ),
    ),
)
