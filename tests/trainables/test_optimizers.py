"""Optimizers follow their published rules. Those without a learning rate are their packages' with a cap."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from dadaptation import DAdaptAdam
from dog import DoG
from prodigyopt import Prodigy
from torch import Tensor, nn

from tests.trainables.conftest import Start
from trainables.optimizers import LR_FREE, make_optimizer
from trainables.optimizers.distance import make_distance_optimizer
from trainables.run.divergence import Diverged, check_distance, distance_columns
from trainables.run.reports import Status

START = torch.tensor([0.5, -1.5, 2.0])
UNCAPPED = 1e30


def quadratic(optimizer: torch.optim.Optimizer, steps: int, *, sign: float = 1.0) -> list[Tensor]:
    """Parameters after each step down ``|x - 1|^2 / 2``; ``sign=-1`` climbs it."""
    (parameter,) = optimizer.param_groups[0]["params"]
    seen = []
    for _ in range(steps):
        parameter.grad = sign * (parameter.detach() - 1.0)
        optimizer.step()
        seen.append(parameter.detach().clone())
    return seen


def made(name: str, *, growth: float = UNCAPPED, weight_decay: float = 0.0) -> torch.optim.Optimizer:
    return make_distance_optimizer(
        name, [nn.Parameter(START.clone())], lr=1.0, weight_decay=weight_decay, growth=growth
    )


PACKAGES: dict[str, Callable[..., torch.optim.Optimizer]] = {"prodigy": Prodigy, "dadapt-adam": DAdaptAdam, "dog": DoG}


@pytest.mark.parametrize("name", PACKAGES)
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_without_a_cap_an_optimizer_equals_that_of_its_package(name: str, decay: float) -> None:
    settings = {} if name == "dog" else {"decouple": True}
    theirs = PACKAGES[name]([nn.Parameter(START.clone())], lr=1.0, weight_decay=decay, **settings)
    for mine, expected in zip(quadratic(made(name, weight_decay=decay), 40), quadratic(theirs, 40), strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-6, atol=0.0)


def test_dowg_is_algorithm_1() -> None:
    x, start = START.double(), START.double()
    far, v = 1e-6 * (1.0 + float(start.norm())), 0.0
    ours = make_distance_optimizer("dowg", [nn.Parameter(x.clone())], lr=1.0, weight_decay=0.0, growth=UNCAPPED)
    for found in quadratic(ours, 60):
        g = x - 1.0
        far = max(far, float((x - start).norm()))
        v += far**2 * float(g @ g)
        x = x - far**2 / math.sqrt(v) * g
        torch.testing.assert_close(found, x, rtol=1e-12, atol=0.0)


@pytest.mark.parametrize("name", LR_FREE)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_distance_never_grows_faster_than_the_cap(name: str, sign: float) -> None:
    optimizer = made(name, growth=1.1)
    distances = []
    for _ in range(60):
        quadratic(optimizer, 1, sign=sign)
        distances.append(distance_columns(optimizer)["distance"])
    assert distances[-1] > distances[0]
    assert all(b <= 1.1 * a * (1 + 1e-6) for a, b in itertools.pairwise(distances))


@pytest.mark.parametrize("name", LR_FREE)
def test_a_parameter_without_gradient_and_a_zero_gradient_do_not_move(name: str) -> None:
    parameters = [nn.Parameter(START.clone()), nn.Parameter(START.clone())]
    optimizer = make_distance_optimizer(name, parameters, lr=1.0, weight_decay=0.0, growth=1.2)
    parameters[0].grad = torch.zeros(3)
    optimizer.step()
    assert all(torch.equal(parameter, START) for parameter in parameters)


@pytest.mark.parametrize("name", LR_FREE)
def test_ascent_of_a_quadratic_runs_away_and_descent_does_not(name: str) -> None:
    down, up = made(name, growth=1.5), made(name, growth=1.5)
    quadratic(down, 300)
    check_distance(down, "at step 300")

    def ascend() -> None:
        for step in range(2000):
            quadratic(up, 1, sign=-1.0)
            check_distance(up, f"at step {step}")

    with pytest.raises(Diverged, match=r"above the limit .* at step \d+"):
        ascend()


def test_a_run_whose_distance_ran_away_ends_as_diverged(start: Start) -> None:
    run = start(method="ga", optimizer="dog", lr=1.0, d_growth=10.0)
    run.optimizer.param_groups[0]["reps_rel"] = 20.0  # an estimate beyond its limit, as the ascent above ends
    report = next(run)
    assert report.status is Status.DIVERGED
    assert "distance estimate grew" in str(report.error)


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adamw_is_adam_with_decoupled_weight_decay(decay: float) -> None:
    """Loshchilov & Hutter, Algorithm 2: betas (0.9, 0.999), eps 1e-8, decay times lr."""
    lr = 1e-2
    optimizer = make_optimizer("adamw", [nn.Parameter(START.double())], lr=lr, weight_decay=decay)
    theta, m, v = START.double(), torch.zeros(3).double(), torch.zeros(3).double()
    for step, found in enumerate(quadratic(optimizer, 3), start=1):
        g = theta - 1.0
        theta = theta - lr * decay * theta
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        theta = theta - lr * (m / (1 - 0.9**step)) / ((v / (1 - 0.999**step)).sqrt() + 1e-8)
        torch.testing.assert_close(found, theta, rtol=1e-12, atol=0.0)


@pytest.mark.parametrize(("momentum", "decay"), [(0.0, 0.0), (0.9, 0.0), (0.5, 0.1)])
def test_sgd_is_heavy_ball_with_coupled_weight_decay(momentum: float, decay: float) -> None:
    lr = 1e-1
    optimizer = make_optimizer("sgd", [nn.Parameter(START.double())], lr=lr, momentum=momentum, weight_decay=decay)
    theta, velocity = START.double(), torch.zeros(3).double()
    for found in quadratic(optimizer, 3):
        velocity = momentum * velocity + (theta - 1.0) + decay * theta
        theta = theta - lr * velocity
        torch.testing.assert_close(found, theta, rtol=1e-12, atol=0.0)
