"""Optimizers that estimate the distance to the solution. The growth of the estimate is capped.

Without the cap, estimates diverge under gradient ascent: the loss is unbounded, so there is no solution.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from typing import Any

import torch
from dadaptation import DAdaptAdam
from dog import DoG
from prodigyopt import Prodigy
from torch.nn import Parameter

from trainables.gradients import total_norm


class CappedProdigy(Prodigy):
    """Prodigy with a distance ``d`` that grows by at most the factor ``growth`` per step.

    The package ``prodigyopt`` does not cap the growth from the initial value ``d0``; this class does. A step uses the
    estimate of the previous step, so it is sufficient to cap the estimate after each step.
    """

    def step(self, closure: Any = None) -> Any:
        before = self.param_groups[0]["d"]
        loss = super().step(closure)
        for group in self.param_groups:
            group["d"] = min(group["d"], before * group["growth_rate"])
        return loss


class CappedDoG(DoG):
    """DoG (arXiv:2302.12022) with a distance ``rbar`` that grows by at most the factor ``growth`` per step.

    Iterates are not averaged. A missing gradient counts as zero. Norms are accumulated in float64 instead of float32.
    """

    def __init__(self, params: Sequence[Parameter], *, growth: float, **settings: Any) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            super().__init__(params, **settings)
        for group in self.param_groups:
            group["growth_rate"] = growth

    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
        return super().step(closure)

    def _update_group_state(self, group: dict[str, Any], init: list[torch.Tensor]) -> None:
        squared = total_norm([p.grad.detach() for p in group["params"]]) ** 2
        if self._first_step:
            group["rbar"] = group["reps_rel"] * (1 + total_norm([p.detach() for p in group["params"]]))
            group["G"] = torch.zeros_like(squared) + group["eps"]
        else:
            # One difference at a time, because all differences together need as much memory as the weights.
            moved = (total_norm([p.detach() - x]) for p, x in zip(group["params"], init, strict=True))
            away = total_norm(list(moved))
            group["rbar"] = torch.minimum(torch.maximum(group["rbar"], away), group["rbar"] * group["growth_rate"])
        rate = group["lr"] * self._rate(group, squared)
        group["eta"] = [rate] * len(group["params"])

    def _rate(self, group: dict[str, Any], squared: torch.Tensor) -> torch.Tensor:
        group["G"] = group["G"] + squared
        rate: torch.Tensor = group["rbar"] / torch.sqrt(group["G"])
        return rate


class CappedDoWG(CappedDoG):
    """DoWG (Khaled, Mishchenko & Jin 2023, arXiv:2305.16284, Algorithm 1) with the cap of :class:`CappedDoG`.

    ``v_t = v_{t-1} + rbar_t^2 |g_t|^2``, and the step is ``rbar_t^2/sqrt(v_t) g_t``, where ``g_t`` is the gradient and
    ``rbar_t`` the distance. There is no maintained package for DoWG. The first distance is ``1e-6 (1 + |x_0|)``, as for
    DoG, and ``v`` starts at 0, as published.
    """

    def _rate(self, group: dict[str, Any], squared: torch.Tensor) -> torch.Tensor:
        if self._first_step:
            group["G"] = torch.zeros_like(squared)
        group["G"] = group["G"] + group["rbar"] ** 2 * squared
        rate: torch.Tensor = group["rbar"] ** 2 / torch.sqrt(group["G"])
        return torch.where(group["G"] > 0, rate, torch.zeros_like(rate))


def make_distance_optimizer(
    name: str, parameters: Sequence[Parameter], *, lr: float, weight_decay: float, growth: float
) -> torch.optim.Optimizer:
    """Return the optimizer ``name``. Weight decay is decoupled for prodigy and dadapt-adam, and L2 for dog and dowg."""
    parameters = list(parameters)
    if name in ("dog", "dowg"):
        kind = CappedDoG if name == "dog" else CappedDoWG
        made: torch.optim.Optimizer = kind(parameters, growth=growth, lr=lr, weight_decay=weight_decay)
        return made
    adam = CappedProdigy if name == "prodigy" else DAdaptAdam
    with contextlib.redirect_stdout(io.StringIO()):  # the packages print a message about decoupled decay
        capped: torch.optim.Optimizer = adam(
            parameters, lr=lr, weight_decay=weight_decay, decouple=True, growth_rate=growth
        )
    return capped
