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
from trainables.auto_lr.rule import Fit
from trainables.auto_lr.rules import RULES, enough_probe_batches
from trainables.auto_lr.safe import ANNEALED_SHARE, annealing
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
    """Return AutoLR for a run of 100 steps, by default with the rule ``paper``. ``loss`` replaces both losses."""
    losses: Any = SimpleNamespace(
        model=model, retain_probe=lambda batches: loss, forget_probe=None, retain_loss_is_probe=False
    )
    settings = {"auto_lr_smoothing": "paper", "auto_lr_probe": "same", "auto_lr_log_forget": False, **changes}
    return AutoLR(TrialSpec(auto_lr="on", **settings), optimizer, losses, EndlessBatches([1], 1, "probe"), steps=100)


def update_of(
    model: Quadratic, optimizer: torch.optim.Optimizer, loss: Callable[[], float] | None = None
) -> dict[str, Any]:
    """Take one step from the gradient of the quadratic with the rule ``paper``, and return the update."""
    model.theta.grad = CURVATURE @ START
    auto_lr = auto_lr_for(model, optimizer, loss or model.loss)
    auto_lr.take_step(1, [0], [0], None)
    (update,) = auto_lr.take_updates()
    assert update["step"] == 1
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
    auto_lr.take_step(1, [0], [0], None)
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
    auto_lr = auto_lr_for(model, optimizer, model.loss, auto_lr_smoothing="official", auto_lr_every=2)
    rates = []
    for step in range(1, 7):
        for each in (model, twin):
            each.theta.grad = CURVATURE @ each.theta.detach()
        auto_lr.take_step(step, [0], [0], None)
        rates.append(optimizer.param_groups[0]["lr"])
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
    ("rule", "eta_star", "expected"),
    [
        ("paper", 5.0, 5.0),
        ("paper", 1e-9, 1e-9),
        ("clip", 5.0, 0.2),
        ("clip", 0.15, 0.15),
        ("clip", 1e-9, 0.05),
        ("official", 5.0, 0.11),
        ("official", 0.15, 0.105),
        ("official", 1e-9, 0.095),
    ],
)
def test_the_rules_of_one_fit_from_a_rate_of_a_tenth(rule: str, eta_star: float, expected: float) -> None:
    def never(x: float) -> Fit:
        raise AssertionError("these rules probe only once")

    fit = Fit(0.1, 1.0, 1.0, 1.0, 0.0, 0.0, eta_star, None)
    assert RULES[rule].choose(fit, never) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("every", "start", "due"), [(10, 1, [1, 11, 21]), (10, 5, [5, 15, 25]), (7, 30, [30])])
def test_the_rate_is_fitted_at_the_first_step_of_autolr_and_then_every_few_steps(
    every: int, start: int, due: list[int]
) -> None:
    model = Quadratic()
    auto_lr = auto_lr_for(model, sgd(model, 0.5), model.loss, auto_lr_every=every, auto_lr_start=start)
    assert [step for step in range(1, 31) if auto_lr.is_due(step)] == due


@pytest.mark.parametrize("steps", [3, 75, 1000])
def test_the_rate_falls_at_the_end_and_not_before(steps: int) -> None:
    shares = [annealing(step, steps) for step in range(1, steps + 1)]
    assert all(share == 1.0 for share in shares[: int(steps * (1.0 - ANNEALED_SHARE))])
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] == pytest.approx(min(1.0, 1.0 / (ANNEALED_SHARE * steps)))


@pytest.mark.parametrize("every", [1, 10])
def test_an_unchanged_rate_is_annealed_once(every: int) -> None:
    """On a constant loss, no update finds a rate."""
    model = Quadratic()
    optimizer = sgd(model, 0.5)
    auto_lr = auto_lr_for(model, optimizer, lambda: 1.0, auto_lr_smoothing="safe", auto_lr_every=every)
    for step in range(1, 101):
        model.theta.grad = torch.zeros(3, dtype=torch.float64)
        auto_lr.take_step(step, [0], [0], None)
        assert optimizer.param_groups[0]["lr"] == pytest.approx(0.5 * annealing(step, 100))
    assert auto_lr.counts["no_curvature"] == 100 / every
    assert auto_lr.counts["clipped"] == 0


@pytest.mark.parametrize(("batch_size", "batches"), [(1, 8), (3, 3), (4, 2), (32, 2)])
def test_at_least_two_batches_and_eight_rows_are_probed(batch_size: int, batches: int) -> None:
    assert enough_probe_batches(batch_size) == batches
