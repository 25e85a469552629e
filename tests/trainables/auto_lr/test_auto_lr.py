"""An AutoLR step finds the minimum along the optimizer's step and steps the optimizer once.

On a quadratic ``L(theta) = theta' A theta / 2`` the best rate along a direction ``d`` is known: ``g'd / d'Ad``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from trainables.auto_lr.rule import Fit
from trainables.auto_lr.rules import RULES
from trainables.auto_lr.step import Update, auto_lr_step

PAPER = RULES["paper"]
CURVATURE = torch.diag(torch.tensor([1.0, 4.0, 0.25], dtype=torch.float64))
CURVATURE[0, 1] = CURVATURE[1, 0] = 0.5
START = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)


class Quadratic:
    """A parameter, its gradient, and probes that record what they see."""

    def __init__(self) -> None:
        self.theta = nn.Parameter(START.clone())
        self.theta.grad = CURVATURE @ START
        self.seen: list[Tensor] = []

    def loss(self) -> float:
        self.seen.append(self.theta.detach().clone())
        return float(self.theta @ CURVATURE @ self.theta / 2)


def sgd(problem: Quadratic, lr: float) -> torch.optim.Optimizer:
    return torch.optim.SGD([problem.theta], lr=lr)


def momentum(problem: Quadratic, lr: float) -> torch.optim.Optimizer:
    return torch.optim.SGD([problem.theta], lr=lr, momentum=0.9)


def adamw(problem: Quadratic, lr: float) -> torch.optim.Optimizer:
    return torch.optim.AdamW([problem.theta], lr=lr, weight_decay=0.1)


OPTIMIZERS = pytest.mark.parametrize("make", [sgd, adamw])
Make = Callable[[Quadratic, float], torch.optim.Optimizer]


def paper_step(problem: Quadratic, optimizer: torch.optim.Optimizer, loss: Callable[[], float] | None = None) -> Update:
    """Take a step with the rule ``paper``. It probes ``loss``, by default the problem's own loss."""
    return auto_lr_step(optimizer, [problem.theta], loss or problem.loss, rule=PAPER, memory={})[0]


def plain_step(make: Make, lr: float) -> Tensor:
    """Return the parameters after a step of the optimizer alone, at ``lr``."""
    problem = Quadratic()
    make(problem, lr).step()
    return problem.theta.detach()


@OPTIMIZERS
@pytest.mark.parametrize("lr", [1e-4, 1e-2, 0.3])
def test_on_a_quadratic_the_fitted_rate_is_exact_wherever_it_starts(make: Make, lr: float) -> None:
    problem = Quadratic()
    direction = (START - plain_step(make, lr)) / lr
    optimizer = make(problem, lr)
    update = paper_step(problem, optimizer)
    gradient = CURVATURE @ START
    best = float(gradient @ direction / (direction @ CURVATURE @ direction))
    assert (update.fallback, update.fit.eta_star) == (None, pytest.approx(best, rel=1e-6))
    assert optimizer.param_groups[0]["lr"] == pytest.approx(best, rel=1e-6)
    torch.testing.assert_close(problem.theta.detach(), START - best * direction, rtol=1e-6, atol=1e-9)
    assert update.fit.slope == pytest.approx(float(gradient @ direction), rel=1e-6)
    assert update.fit.curvature == pytest.approx(float(direction @ CURVATURE @ direction), rel=1e-4)


@OPTIMIZERS
def test_the_probes_see_the_start_the_step_and_its_mirror_image_and_the_step_beats_them(make: Make) -> None:
    """The paper's Algorithm 1 exchanges the two probes, so its step would go uphill."""
    problem = Quadratic()
    update = paper_step(problem, make(problem, 1e-2))
    stepped = plain_step(make, 1e-2)
    assert all(map(torch.equal, problem.seen, (START, stepped, START - (stepped - START))))
    assert len(problem.seen) == 3
    assert update.fit.loss_plus < update.fit.loss_zero < update.fit.loss_minus
    assert problem.loss() < update.fit.loss_plus


def test_the_final_step_starts_from_the_exact_parameters() -> None:
    """In float32, ``theta + delta - delta`` is not theta for values from 1e-8 to 1e8."""
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(1000, generator=generator) * 10.0 ** torch.randint(-8, 9, (1000,), generator=generator)
    gradient = torch.randn(1000, generator=generator)
    losses = iter([1.0, 0.8, 1.3])  # G = 0.25/eta, H = 0.1/eta^2: eta* = 2.5 eta
    parameter = nn.Parameter(start.clone())
    parameter.grad = gradient.clone()
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    update = auto_lr_step(optimizer, [parameter], lambda: next(losses), rule=PAPER, memory={})[0]
    delta = start.add(gradient, alpha=-0.1) - start
    assert not torch.equal(start + delta - delta, start)
    assert update.fit.eta_star is not None
    assert update.fit.eta_star == pytest.approx(0.25)
    assert torch.equal(parameter.detach(), start.add(delta, alpha=update.fit.eta_star / 0.1))


@OPTIMIZERS
@pytest.mark.parametrize(
    ("losses", "reason"),
    [
        ([1.0, math.nan, 1.2], "not finite"),
        ([1.0, 0.9, math.inf], "not finite"),
        ([1.0, math.inf, math.inf], "not finite"),
        ([math.nan, 0.9, 1.2], "not finite"),
        ([1.0, 1.2, 0.9], "no descent"),
        ([1.0, 1.0, 1.0], "no descent"),
        ([1.0, 0.7, 1.2], "no curvature"),
        ([1.0, 0.75, 1.25], "no curvature"),
    ],
)
def test_a_refused_fit_is_a_plain_step_at_the_old_rate(make: Make, losses: list[float], reason: str) -> None:
    problem = Quadratic()
    optimizer = make(problem, 0.01)
    update = paper_step(problem, optimizer, iter(losses).__next__)
    assert (update.fallback, update.fit.eta_star) == (reason, None)
    assert optimizer.param_groups[0]["lr"] == 0.01
    torch.testing.assert_close(problem.theta.detach(), plain_step(make, 0.01), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("make", [adamw, momentum])
def test_an_optimizer_under_auto_lr_is_the_plain_one_at_the_rates_it_chose(make: Make) -> None:
    """The optimizer's state advances once per step."""
    problem, twin = Quadratic(), Quadratic()
    optimizer, plain = make(problem, 1e-3), make(twin, 1e-3)
    rates = []
    for step in range(6):
        for each in (problem, twin):
            each.theta.grad = CURVATURE @ each.theta.detach()
        if step % 2 == 0:
            auto_lr_step(optimizer, [problem.theta], problem.loss, rule=RULES["official"], memory={})
        else:
            optimizer.step()
        rates.append(optimizer.param_groups[0]["lr"])
        plain.param_groups[0]["lr"] = rates[-1]
        plain.step()
        torch.testing.assert_close(problem.theta.detach(), twin.theta.detach(), rtol=1e-6, atol=1e-9)
    assert len({1e-3, *rates}) >= 3


def test_buffers_are_restored_even_counters_and_masks() -> None:
    """BatchNorm's counter is int64 and attention masks are bool, so they cannot be moved along a direction."""
    problem = Quadratic()
    buffers = [torch.tensor([3, 4]), torch.tensor([True, False]), torch.tensor([0.5, 0.25])]
    before = [buffer.clone() for buffer in buffers]
    update = auto_lr_step(sgd(problem, 0.01), [problem.theta, *buffers], problem.loss, rule=PAPER, memory={})[0]
    assert update.fallback is None
    assert all(torch.equal(buffer, old) for buffer, old in zip(buffers, before, strict=True))


def never(x: float) -> Fit:
    raise AssertionError("this rule probes no further")


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
    fit = Fit(0.1, 1.0, 1.0, 1.0, 0.0, 0.0, eta_star, None)
    proposal, memory = RULES[rule].propose({}, fit, never)
    assert proposal.eta == pytest.approx(expected, rel=1e-12)
    assert (proposal.reason, memory) == (None, {})
