"""Learning-rate-free optimizers, with a cap on the growth of their distance estimates.

Each optimizer estimates the distance from the initial weights to the solution. Without the cap, the estimate diverges
under gradient ascent, because an unbounded loss has no solution.
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
    """Prodigy with a cap on the growth of the distance estimate ``d``.

    The package prodigyopt also has a cap, but does not apply it to the first growth from ``d0``.
    """

    def step(self, closure: Any = None) -> Any:
        previous_d = self.param_groups[0]["d"]
        # A step uses the estimate of the previous step, so a cap after the step is sufficient.
        loss = super().step(closure)
        for group in self.param_groups:
            group["d"] = min(group["d"], previous_d * group["growth_rate"])
        return loss


class CappedDoG(DoG):
    """DoG (arXiv:2302.12022) with a cap on the growth of the distance ``rbar``.

    The iterates are not averaged. A missing gradient counts as zero. Norms are computed in float64 instead of float32.
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
        squared_norm = total_norm([p.grad.detach() for p in group["params"]]) ** 2
        if self._first_step:
            group["rbar"] = group["reps_rel"] * (1 + total_norm([p.detach() for p in group["params"]]))
            group["G"] = torch.zeros_like(squared_norm) + group["eps"]
        else:
            # One difference at a time, because all differences together need as much memory as the weights.
            distances = (total_norm([p.detach() - x]) for p, x in zip(group["params"], init, strict=True))
            distance = total_norm(list(distances))
            max_rbar = group["rbar"] * group["growth_rate"]
            group["rbar"] = torch.minimum(torch.maximum(group["rbar"], distance), max_rbar)
        rate = group["lr"] * self._rate(group, squared_norm)
        group["eta"] = [rate] * len(group["params"])

    def _rate(self, group: dict[str, Any], squared_norm: torch.Tensor) -> torch.Tensor:
        group["G"] = group["G"] + squared_norm
        rate: torch.Tensor = group["rbar"] / torch.sqrt(group["G"])
        return rate


class CappedDoWG(CappedDoG):
    """DoWG (Khaled, Mishchenko & Jin 2023, arXiv:2305.16284, Algorithm 1) with the cap of :class:`CappedDoG`.

    The step is ``rbar_t^2/sqrt(v_t) g_t`` with ``v_t = v_{t-1} + rbar_t^2 |g_t|^2`` and ``v_0 = 0``. The gradient is
    ``g_t``, and the distance is ``rbar_t``. The first distance is ``1e-6 (1 + |x_0|)``, as for DoG.
    """

    def _rate(self, group: dict[str, Any], squared_norm: torch.Tensor) -> torch.Tensor:
        if self._first_step:
            group["G"] = torch.zeros_like(squared_norm)
        group["G"] = group["G"] + group["rbar"] ** 2 * squared_norm
        rate: torch.Tensor = group["rbar"] ** 2 / torch.sqrt(group["G"])
        return torch.where(group["G"] > 0, rate, torch.zeros_like(rate))


def make_distance_optimizer(
    name: str, parameters: Sequence[Parameter], *, lr: float, weight_decay: float, growth: float
) -> torch.optim.Optimizer:
    """Return an optimizer. Weight decay is decoupled for prodigy and dadapt-adam, and L2 for dog and dowg."""
    parameters = list(parameters)
    if name in ("dog", "dowg"):
        dog_class = CappedDoG if name == "dog" else CappedDoWG
        dog_optimizer: torch.optim.Optimizer = dog_class(parameters, growth=growth, lr=lr, weight_decay=weight_decay)
        return dog_optimizer
    adam_class = CappedProdigy if name == "prodigy" else DAdaptAdam
    with contextlib.redirect_stdout(io.StringIO()):  # the packages print a message about decoupled decay
        adam_optimizer: torch.optim.Optimizer = adam_class(
            parameters, lr=lr, weight_decay=weight_decay, decouple=True, growth_rate=growth
        )
    return adam_optimizer
