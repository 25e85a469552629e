"""An AutoLR step finds the minimum along the optimizer's step and steps the optimizer once."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from trainables.auto_lr.in_run import AutoLR
from trainables.auto_lr.rules import FALLBACKS, RULES
from trainables.batches import EndlessBatches
from trainables.spec import TrialSpec

CURVATURE = torch.diag(torch.tensor([1.0, 4.0, 0.25], dtype=torch.float64))
CURVATURE[0, 1] = CURVATURE[1, 0] = 0.5
START = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)

Make = Callable[..., torch.optim.Optimizer]


class Quadratic(nn.Module):
    def __init__(self, start: Tensor = START) -> None:
        super().__init__()
        self.theta = nn.Parameter(start.clone())

    def loss(self) -> float:
        return float(self.theta @ CURVATURE @ self.theta / 2)


def auto_lr_for(
    model: nn.Module, optimizer: torch.optim.Optimizer, loss: Callable[[], float], **changes: Any
) -> AutoLR:
    """Return AutoLR, by default with the rule ``gen`` from step 1. ``loss`` replaces both losses."""
    losses: Any = SimpleNamespace(
        model=model, retain_probe=lambda batches: loss, forget_probe=None, retain_loss_is_probe=False
    )
    settings = {"auto_lr": "gen", "auto_lr_start": 1, "auto_lr_log_forget": False, **changes}
    return AutoLR(TrialSpec(**settings), optimizer, losses, EndlessBatches([1], 1, "probe"))


def update_of(
    model: Quadratic, optimizer: torch.optim.Optimizer, loss: Callable[[], float] | None = None
) -> dict[str, Any]:
    """Take one step from the gradient of the quadratic with the rule ``gen``, and return the update."""
    model.theta.grad = CURVATURE @ START
    auto_lr = auto_lr_for(model, optimizer, loss or model.loss)
    rate = auto_lr.take_step(1, [0], [0], None, rate=optimizer.param_groups[0]["lr"])
    (update,) = auto_lr.take_updates()
    assert (update["step"], update["eta_new"], optimizer.param_groups[0]["lr"]) == (1, rate, rate)
    return update


def sgd(model: nn.Module, lr: float) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=lr)


def momentum(model: nn.Module, lr: float) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)


def adamw(model: nn.Module, lr: float) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.1)


def test_the_final_step_starts_from_the_exact_parameters() -> None:
    """In float32, ``theta + delta - delta`` is not theta for values from 1e-8 to 1e8."""
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(1000, generator=generator) * 10.0 ** torch.randint(-8, 9, (1000,), generator=generator)
    gradient = torch.randn(1000, generator=generator)
    losses = iter([1.0, 0.8, 1.3])  # G = 0.25/eta, H = 0.1/eta^2: eta* = 2.5 eta
    model = Quadratic(start)
    model.theta.grad = gradient.clone()
    auto_lr = auto_lr_for(model, sgd(model, 0.1), losses.__next__)
    auto_lr.take_step(1, [0], [0], None, rate=0.1)
    delta = start.add(gradient, alpha=-0.1) - start
    assert not torch.equal(start + delta - delta, start)
    (update,) = auto_lr.take_updates()
    assert update["eta_new"] == pytest.approx(0.25)
    assert torch.equal(model.theta.detach(), start.add(delta, alpha=update["eta_new"] / 0.1))


@pytest.mark.parametrize(
    ("losses", "reason"),
    [
        ([1.0, math.nan, 1.2], "not finite"),
        ([1.0, math.inf, math.inf], "not finite"),
        ([math.nan, 0.9, 1.2], "not finite"),
        ([-5e-324, -1.0, 1.0], "not finite"),  # eta* overflows
        ([1.0, 1.2, 0.9], "no descent"),
        ([1.0, 1.0, 1.0], "no descent"),
        ([1.0, 0.7, 1.2], "no curvature"),
        ([1.0, 0.75, 1.25], "no curvature"),
    ],
)
def test_a_refused_fit_is_a_plain_step_at_the_old_rate(losses: list[float], reason: str) -> None:
    model, plain = Quadratic(), Quadratic()
    optimizer = adamw(model, 0.01)
    update = update_of(model, optimizer, iter(losses).__next__)
    plain.theta.grad = CURVATURE @ START
    adamw(plain, 0.01).step()
    assert (update["fallback"], update["eta_star"]) == (reason, None)
    assert optimizer.param_groups[0]["lr"] == 0.01
    torch.testing.assert_close(model.theta, plain.theta, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("make", [adamw, momentum])
def test_an_optimizer_under_auto_lr_is_the_plain_one_at_the_rates_it_chose(make: Make) -> None:
    model, twin = Quadratic(), Quadratic()
    optimizer, plain = make(model, 1e-3), make(twin, 1e-3)
    auto_lr = auto_lr_for(model, optimizer, model.loss, auto_lr="gen-official")
    rates = []
    rate = 1e-3
    for step in range(1, 7):
        for each in (model, twin):
            each.theta.grad = CURVATURE @ each.theta.detach()
        rate = auto_lr.take_step(step, [0], [0], None, rate=rate, decay=1.0 / step)
        rates.append(optimizer.param_groups[0]["lr"])
        assert rates[-1] == pytest.approx(rate / step)
        plain.param_groups[0]["lr"] = rates[-1]
        plain.step()
        torch.testing.assert_close(model.theta.detach(), twin.theta.detach(), rtol=1e-6, atol=1e-9)
    assert len({1e-3, *rates}) >= 3


def test_buffers_are_restored_even_counters_and_masks() -> None:
    """BatchNorm's counter is int64 and attention masks are bool, so they cannot be moved along a direction."""
    model = Quadratic()
    buffers = [torch.tensor([3, 4]), torch.tensor([True, False]), torch.tensor([0.5, 0.25])]
    for number, buffer in enumerate(buffers):
        model.register_buffer(f"buffer_{number}", buffer.clone())
    assert update_of(model, sgd(model, 0.01))["fallback"] is None
    assert all(map(torch.equal, model.buffers(), buffers))


@pytest.mark.parametrize(
    ("changes", "due"),
    [
        ({}, [10, 20, 30]),  # as in Algorithm 1 of the paper
        ({"auto_lr": "curvature"}, [1, 11, 21]),
        ({"auto_lr_start": 5}, [5, 15, 25]),
        ({"auto_lr_every": 7, "auto_lr_start": 30}, [30]),
    ],
)
def test_the_rate_is_updated_at_the_first_step_of_autolr_and_then_every_few_steps(
    changes: dict[str, Any], due: list[int]
) -> None:
    model = Quadratic()
    auto_lr = auto_lr_for(model, sgd(model, 0.5), model.loss, **{"auto_lr_start": None, **changes})
    assert [step for step in range(1, 31) if auto_lr.is_due(step)] == due


@pytest.mark.parametrize("rule", RULES)
def test_accepted_updates_are_counted_and_only_curvature_stops_after_one(rule: str) -> None:
    """On a flat loss, no update is accepted."""
    model = Quadratic()
    for loss, accepted in ((model.loss, 1), (lambda: 1.0, 0)):
        auto_lr = auto_lr_for(model, sgd(model, 1e-3), loss, auto_lr=rule)
        model.theta.grad = CURVATURE @ model.theta.detach()
        auto_lr.take_step(1, [0], [0], None, rate=1e-3)
        columns = auto_lr.columns()
        assert (columns["lr_updates"], columns["lr_updates_accepted"]) == (1, accepted)
        reasons = [columns[f"auto_lr_{reason.replace(' ', '_')}"] for reason in FALLBACKS]
        assert sum(reasons) == 1 - accepted
        assert auto_lr.is_due(11) is not (rule == "curvature" and accepted == 1)
        resumed = auto_lr_for(model, sgd(model, 1e-3), loss, auto_lr=rule)
        resumed.load_state_dict(auto_lr.state_dict())
        assert (resumed.columns(), resumed.is_due(11)) == (columns, auto_lr.is_due(11))


@pytest.mark.parametrize("rule", RULES)
def test_an_update_moves_the_weights_by_exactly_its_new_rate(rule: str) -> None:
    """The probes leave no trace: the weights are theta plus the plain step, scaled by the ratio of the rates."""
    model = Quadratic()
    model.theta.grad = CURVATURE @ START
    plain = START.add(CURVATURE @ START, alpha=-1e-3)
    rate = auto_lr_for(model, sgd(model, 1e-3), model.loss, auto_lr=rule).take_step(1, [0], [0], None, rate=1e-3)
    assert rate != 1e-3
    assert torch.equal(model.theta.detach(), START.add(plain - START, alpha=rate / 1e-3))
