"""Check your own update in a test: ``check_update(MINE)``."""

from __future__ import annotations

import copy
from functools import partial

import torch
from torch import Tensor
from torch.nn import Parameter

from trainables.optimizers import OPTIMIZERS, make_optimizer
from trainables.spec import TrialSpec
from trainables.updates import Update


def check_update(update: Update) -> None:
    """Check that the fields of an update are consistent, and that its functions keep the rules of :class:`Update`.

    ``forget_gradient`` must return the loss at the current weights, give every parameter that the loss depends on a
    finite gradient, and leave the bits of the weights. With ``attach``, an optimizer's step must be proportional to the
    learning rate, and continue from a saved state with the same bits. ``fixed_gradient`` must return a finite tensor
    with the shape of each matrix, the same bits in each call, and leave the bits of the weights.

    Raises:
        AssertionError: a check failed; the message says which.
    """
    assert update.formula, "the formula is empty"
    assert "\n" not in update.formula + update.citation, "formula and citation must be one line each"
    assert set(update.optimizers) <= set(OPTIMIZERS), f"unknown optimizers: {update.optimizers}"
    if update.forget_gradient is not None:
        _check_forget_gradient(update)
    if update.fixed_gradient is not None:
        _check_fixed_gradient(update)
    if update.attach is not None:
        for optimizer in update.optimizers or OPTIMIZERS:
            _check_steps(update, optimizer)


def _parameters() -> list[Parameter]:
    draws = torch.Generator().manual_seed(0)
    return [Parameter(torch.randn(shape, generator=draws)) for shape in ((3, 2), (4,), (2,))]


def _check_forget_gradient(update: Update) -> None:
    assert update.forget_gradient is not None
    for zero in (False, True):
        parameters = _parameters()
        starts = [parameter.detach().clone() for parameter in parameters]

        def backward(parameters: list[Parameter] = parameters, factor: float = 0.0 if zero else -1.0) -> Tensor:
            loss = factor * (parameters[0].exp().sum() + parameters[1].square().sum())  # not of the last parameter
            loss.backward()
            return loss.detach()

        expected = backward()
        for parameter in parameters:
            parameter.grad = None
        loss = update.forget_gradient(parameters, backward, TrialSpec().values())
        assert torch.equal(loss, expected), f"the loss must be {expected:g}, the loss at the current weights"
        assert all(map(torch.equal, parameters, starts)), "the weights must be unchanged"
        gradients = [parameter.grad for parameter in parameters[:2]]
        assert all(grad is not None and bool(grad.isfinite().all()) for grad in gradients), "no finite gradient"


def _check_fixed_gradient(update: Update) -> None:
    assert update.fixed_gradient is not None
    draws = torch.Generator().manual_seed(0)
    matrices = [Parameter(torch.randn(shape, generator=draws)) for shape in ((3, 2), (2, 5), (4, 4))]
    starts = [matrix.detach().clone() for matrix in matrices]

    def batch(number: int, sign: float) -> Tensor:  # the loss does not depend on the last matrix in all batches
        loss = sign * sum(torch.sin(matrix + number).sum() for matrix in matrices[: 3 - number])
        assert isinstance(loss, Tensor)
        loss.backward()
        return loss.detach()

    found = []
    for _ in range(2):
        learn, forget = ([partial(batch, number, sign) for number in range(2)] for sign in (1.0, -1.0))
        found.append(update.fixed_gradient(matrices, learn, forget, TrialSpec().values()))
        assert all(map(torch.equal, matrices, starts)), "the weights must be unchanged"
        for matrix in matrices:
            matrix.grad = None
    assert [tensor.shape for tensor in found[0]] == [matrix.shape for matrix in matrices], "one tensor per matrix"
    assert all(bool(tensor.isfinite().all()) for tensor in found[0]), "the fixed gradient is not finite"
    assert all(map(torch.equal, *found)), "the fixed gradient must be the same in each call"


def _check_steps(update: Update, name: str) -> None:
    def start(lr: float) -> tuple[list[Parameter], torch.optim.Optimizer]:
        parameters = _parameters()
        optimizer = make_optimizer(name, parameters, lr=lr)
        assert update.attach is not None
        update.attach(optimizer)
        return parameters, optimizer

    def step(parameters: list[Parameter], optimizer: torch.optim.Optimizer, number: int) -> list[Tensor]:
        before = [parameter.detach().clone() for parameter in parameters]
        for parameter in parameters[:2]:
            parameter.grad = torch.cos(parameter.detach() + number)
        optimizer.step()
        return [parameter.detach() - old for parameter, old in zip(parameters, before, strict=True)]

    short, double = (step(*start(lr), 0) for lr in (1.0 / 1024, 2.0 / 1024))
    is_proportional = all(
        torch.allclose(2.0 * one, two, rtol=1e-3, atol=1e-6) for one, two in zip(short, double, strict=True)
    )
    assert is_proportional, f"with {name}, the step must be proportional to the learning rate"
    assert any(bool(move.any()) for move in short), f"with {name}, the step does not move the weights"
    parameters, optimizer = start(1e-3)
    step(parameters, optimizer, 1)
    saved = copy.deepcopy(([parameter.detach() for parameter in parameters], optimizer.state_dict()))
    step(parameters, optimizer, 2)
    resumed, other = start(1e-3)
    with torch.no_grad():
        for parameter, value in zip(resumed, saved[0], strict=True):
            parameter.copy_(value)
    other.load_state_dict(saved[1])
    step(resumed, other, 2)
    assert all(map(torch.equal, parameters, resumed)), f"with {name}, a resumed step differs"
