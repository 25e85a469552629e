"""The registry of optimizers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.nn import Parameter
    from torch.optim import Optimizer

DEFAULT_GROWTH = 1.2
"""The default factor by which a distance estimate may grow per step. Growing 100-fold takes at least 26 steps."""

LR_FREE_LR = 1.0
LR_FREE_RANGE = (0.1, 10.0)
"""The default learning rate and search range of learning-rate-free optimizers. The published rate is 1."""


@dataclass(frozen=True, slots=True)
class OptimizerInfo:
    """One optimizer in the registry. ``buffers`` is the number of values that the optimizer keeps per parameter."""

    name: str
    rule: str
    options: str
    buffers: int
    lr_free: bool
    citation: str


_GROWTH = (
    "lr (default 1, searched from 0.1 to 10), weight_decay (default 0), "
    f"growth-rate (default {DEFAULT_GROWTH:g}, at least 1)"
)

_INFOS = (
    OptimizerInfo(
        name="adamw",
        rule="lr m/(sqrt(v) + eps), where m and v are moving averages of g and g^2; weight decay is decoupled",
        options="lr (default: the model's), weight_decay (default 0)",
        buffers=2,
        lr_free=False,
        citation="Loshchilov & Hutter, Decoupled Weight Decay Regularization, ICLR 2019 (arXiv:1711.05101)",
    ),
    OptimizerInfo(
        name="sgd",
        rule="lr b, where b = g + momentum b",
        options="lr (default: the model's), momentum (default 0), weight_decay (default 0)",
        buffers=1,
        lr_free=False,
        citation="Robbins & Monro 1951; momentum: Polyak 1964",
    ),
    OptimizerInfo(
        name="prodigy",
        rule="Adam with the learning rate lr d, where d estimates the distance to the solution",
        options=_GROWTH,
        buffers=4,
        lr_free=True,
        citation="Mishchenko & Defazio, Prodigy, ICML 2024 (arXiv:2306.06101); package prodigyopt",
    ),
    OptimizerInfo(
        name="dadapt-adam",
        rule="Adam with the learning rate lr d, where d is a lower bound of the distance to the solution",
        options=_GROWTH,
        buffers=3,
        lr_free=True,
        citation="Defazio & Mishchenko, D-Adaptation, ICML 2023 (arXiv:2301.07733); package dadaptation",
    ),
    OptimizerInfo(
        name="dog",
        rule="lr r g / sqrt(sum_i |g_i|^2), where r is the largest distance from the initial weights",
        options=_GROWTH,
        buffers=1,
        lr_free=True,
        citation="Ivgi et al., DoG is SGD's Best Friend, ICML 2023 (arXiv:2302.12022); package dog-optimizer",
    ),
    OptimizerInfo(
        name="dowg",
        rule="lr r^2 g / sqrt(sum_i r_i^2 |g_i|^2), where r is defined as for dog, and r_i is r at step i",
        options=_GROWTH,
        buffers=1,
        lr_free=True,
        citation="Khaled, Mishchenko & Jin, DoWG Unleashed, NeurIPS 2023 (arXiv:2305.16284)",
    ),
)
OPTIMIZER_INFO: Mapping[str, OptimizerInfo] = MappingProxyType({info.name: info for info in _INFOS})
"""Every optimizer by name."""

OPTIMIZERS = tuple(OPTIMIZER_INFO)
LR_FREE = tuple(name for name, info in OPTIMIZER_INFO.items() if info.lr_free)


def set_rate(optimizer: Optimizer, rate: float) -> None:
    """Set the learning rate of all parameter groups."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def make_optimizer(
    name: str,
    parameters: Sequence[Parameter],
    *,
    lr: float,
    weight_decay: float = 0.0,
    momentum: float = 0.0,
    growth: float | None = None,
) -> Optimizer:
    """Return an optimizer for the trainable parameters.

    AdamW without decay is the Adam of the AutoLR paper. SGD without momentum is the optimizer of Algorithm 1 in that
    paper. For a learning-rate-free optimizer, ``growth`` is the maximum factor by which the distance estimate grows per
    step; None for ``DEFAULT_GROWTH``.
    """
    import torch

    if name in LR_FREE:
        from trainables.optimizers.distance import make_distance_optimizer

        growth = DEFAULT_GROWTH if growth is None else growth
        return make_distance_optimizer(name, parameters, lr=lr, weight_decay=weight_decay, growth=growth)
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=lr, momentum=momentum, weight_decay=weight_decay)
    # Fused: one kernel per tensor takes a third of the default's time on a CPU (benchmarks/step_parts.py).
    return torch.optim.AdamW(parameters, lr=lr, weight_decay=weight_decay, fused=True)
