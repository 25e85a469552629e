"""The optimizers do what their published update rules say, and every update is linear in lr, as AutoLR needs."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from trainables.optimizers import make_optimizer

START = torch.tensor([0.5, -1.5, 2.0])
GRADIENTS = [torch.tensor([0.3, -0.2, 1e-4]), torch.tensor([-0.1, 0.4, 2e-4]), torch.tensor([0.2, 0.2, -3e-4])]


def _run(name: str, **settings: float) -> Tensor:
    parameter = nn.Parameter(START.clone())
    optimizer = make_optimizer(name, [parameter], **settings)
    for gradient in GRADIENTS:
        parameter.grad = gradient.clone()
        optimizer.step()
    return parameter.detach()


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adamw_is_adam_with_decoupled_weight_decay(decay: float) -> None:
    """Loshchilov & Hutter, Algorithm 2: betas (0.9, 0.999), eps 1e-8, decay times lr."""
    lr = 1e-2
    theta, m, v = START.double(), torch.zeros(3).double(), torch.zeros(3).double()
    for step, gradient in enumerate(GRADIENTS, start=1):
        g = gradient.double()
        theta = theta - lr * decay * theta
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        theta = theta - lr * (m / (1 - 0.9**step)) / ((v / (1 - 0.999**step)).sqrt() + 1e-8)
    found = _run("adamw", lr=lr, weight_decay=decay)
    torch.testing.assert_close(found.double(), theta, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("momentum", "decay"), [(0.0, 0.0), (0.9, 0.0), (0.5, 0.1)])
def test_sgd_is_heavy_ball_with_coupled_weight_decay(momentum: float, decay: float) -> None:
    lr = 1e-1
    theta, velocity = START.double(), torch.zeros(3).double()
    for gradient in GRADIENTS:
        velocity = momentum * velocity + gradient.double() + decay * theta
        theta = theta - lr * velocity
    found = _run("sgd", lr=lr, momentum=momentum, weight_decay=decay)
    torch.testing.assert_close(found.double(), theta, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("name", "settings"), [("adamw", {"weight_decay": 0.1}), ("sgd", {"momentum": 0.9})])
def test_an_update_is_linear_in_lr(name: str, settings: dict[str, float]) -> None:
    def last_move(lr: float) -> Tensor:
        parameter = nn.Parameter(START.double())
        optimizer = make_optimizer(name, [parameter], lr=1e-2, **settings)
        for gradient in GRADIENTS:
            before = parameter.detach().clone()
            optimizer.param_groups[0]["lr"] = lr if gradient is GRADIENTS[-1] else 1e-2
            parameter.grad = gradient.double()
            optimizer.step()
        return parameter.detach() - before

    torch.testing.assert_close(last_move(3e-2), 3 * last_move(1e-2), rtol=1e-9, atol=1e-12)
