"""Every update passes the suite, has its formula, and works with all weightings, LoRA and micro-batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.trainables.conftest import MakeSpec, Start
from tests.trainables.runs import same_bits, weights_of
from trainables.optimizers import make_optimizer
from trainables.run.run import UnlearningRun
from trainables.spec import TrialSpec
from trainables.spec_checks import trial_problems
from trainables.testing.updates import check_update
from trainables.updates import UPDATES, Update
from trainables.updates.repselect import damped
from trainables.weightings import WEIGHTINGS, Needs

FORGET, RETAIN = [0, 1, 2], [3, 4, 5]
NAMES = [name for name in UPDATES if name != "plain"]


@pytest.mark.parametrize("update", UPDATES.values(), ids=list(UPDATES))
def test_every_update_passes_the_suite(update: Update) -> None:
    check_update(update)


def without_restoring(parameters: Any, backward: Any, settings: Any) -> Tensor:
    loss: Tensor = backward()
    with torch.no_grad():
        parameters[0].add_(1e-6)
    return loss


def halved(optimizer: torch.optim.Optimizer) -> None:
    optimizer.register_step_pre_hook(lambda optimizer, *_: optimizer.param_groups[0].update(lr=1e-3))


BROKEN: dict[str, dict[str, Any]] = {
    "formula": {"formula": ""},
    "unknown optimizers": {"optimizers": ("adamw", "sofia")},
    "weights must be unchanged": {"forget_gradient": without_restoring},
    "the loss at the current weights": {"forget_gradient": lambda p, backward, s: 2.0 * backward()},
    "no finite gradient": {"forget_gradient": lambda p, backward, s: (backward(), p[0].grad.log_())[0]},
    "proportional": {"attach": halved},
    "one tensor per matrix": {"fixed_gradient": lambda m, learn, forget, s: [torch.zeros(1)]},
    "fixed gradient is not finite": {"fixed_gradient": lambda m, learn, forget, s: [x / 0.0 for x in m]},
    "same in each call": {"fixed_gradient": lambda m, learn, forget, s: [torch.randn_like(x) for x in m]},
}


@pytest.mark.parametrize("promise", BROKEN)
def test_the_broken_promise_of_an_update_is_named(promise: str) -> None:
    with pytest.raises(AssertionError, match=promise):
        check_update(replace(UPDATES["plain"], **BROKEN[promise]))


def test_sam_takes_the_gradient_of_a_quadratic_at_the_distance_rho_up_the_slope() -> None:
    draws = np.random.default_rng(0)
    a, x = draws.normal(size=(5, 5)), draws.normal(size=5)
    matrix = a @ a.T
    parameters = [nn.Parameter(torch.tensor(x[:2])), nn.Parameter(torch.tensor(x[2:]))]

    def backward() -> Tensor:
        whole = torch.cat(list(parameters))
        loss = whole @ torch.tensor(matrix) @ whole / 2.0
        loss.backward()
        return loss.detach()

    compute = UPDATES["sam"].forget_gradient
    assert compute is not None
    loss = compute(parameters, backward, {"sam_rho": 0.3})
    slope = matrix @ x
    found = torch.cat([parameter.grad for parameter in parameters if parameter.grad is not None])
    assert float(loss) == pytest.approx(x @ matrix @ x / 2.0)
    np.testing.assert_allclose(found.numpy(), matrix @ (x + 0.3 * slope / np.linalg.norm(slope)), rtol=1e-12)


def test_repselect_damps_the_top_singular_values_and_keeps_the_others() -> None:
    draws = np.random.default_rng(2)
    left, right = (np.linalg.qr(draws.normal(size=(size, 6)))[0] for size in (6, 9))
    values = np.array([8.0, 4.0, 2.0, 1.0, 0.5, 0.25])
    for transpose in (False, True):
        matrix = left * values @ right.T
        expected = left * np.array([0.5, 1.0, 2.0, 1.0, 0.5, 0.25]) @ right.T  # 2^2/8, 2^2/4, 2^2/2 for the top three
        found = damped(torch.tensor(matrix.T if transpose else matrix), 0.5).numpy()
        np.testing.assert_allclose(found, expected.T if transpose else expected, atol=1e-12)
    assert not damped(torch.zeros(3, 4), 1.0).any()


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_repselect_takes_the_mean_gradient_under_an_adapter_that_learned_each_batch(rate: float) -> None:
    draws = np.random.default_rng(3)
    start, points = draws.normal(size=(5, 4)), draws.normal(size=(3, 5, 4))
    matrix = nn.Parameter(torch.tensor(start))

    def add_gradient(number: int, sign: float) -> Tensor:  # the loss is |W - point|^2/2, or its negative
        difference = matrix - torch.tensor(points[number])
        loss = sign * difference.square().sum() / 2.0
        loss.backward()
        return loss.detach()

    compute = UPDATES["repselect"].fixed_gradient
    assert compute is not None
    settings = {"seed": 5, "repselect_adapter_lr": rate, "repselect_share": 0.25}
    learn, forget = ([partial(add_gradient, number, sign) for number in range(3)] for sign in (1.0, -1.0))
    (found,) = compute([matrix], learn, forget, settings)

    uniform = torch.rand(4, 4, generator=torch.Generator().manual_seed(5)).double().numpy() * 2.0 - 1.0
    a, b = uniform / 4**0.5, np.zeros((5, 4))  # the rank is at most the smaller dimension, 4
    for point in points:
        slope = start + b @ a - point
        a, b = a - rate * b.T @ slope, b - rate * slope @ a.T
    mean = np.mean([-(start + b @ a - point) for point in points], axis=0)
    # With k = 1, the only top singular value s_1 becomes s_1^2/s_1: nothing changes.
    np.testing.assert_allclose(found.numpy(), mean, rtol=1e-6, atol=1e-7)


def test_an_epoch_of_repselect_moves_only_the_mlps_by_the_fixed_gradient(start: Start) -> None:
    run = start(method="ga", update="repselect", optimizer="sgd", lr=0.5, repselect_adapter_lr=0.1)
    fixed, before = run._fixed_forget_gradient, weights_of(run)
    assert fixed is not None
    names = [name for name, _ in run.model.named_parameters()]
    assert {name.split(".")[-3] for name, g in zip(names, fixed, strict=True) if g is not None} == {"mlp"}
    for _ in range(2):
        run._train_step(FORGET, RETAIN)
    for parameter, old, g in zip(run.parameters, before, fixed, strict=True):
        expected = old if g is None else old - 2.0 * 0.5 * g
        torch.testing.assert_close(parameter.detach(), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize(("name", "momentum"), [("adamw", 0.0), ("sgd", 0.0), ("sgd", 0.9)])
def test_sign_moves_each_weight_by_the_rate_along_the_sign_of_the_momentum(
    name: str, momentum: float, weight_decay: float
) -> None:
    draws = np.random.default_rng(1)
    x = draws.normal(size=6).astype(np.float32)
    parameter, average = nn.Parameter(torch.tensor(x)), np.zeros(6)
    optimizer = make_optimizer(name, [parameter], lr=0.25, weight_decay=weight_decay, momentum=momentum)
    attach = UPDATES["sign"].attach
    assert attach is not None
    attach(optimizer)
    for _ in range(8):
        g = draws.normal(size=6).astype(np.float32)
        parameter.grad = torch.tensor(g)
        optimizer.step()
        if name == "adamw":
            average = 0.9 * average + 0.1 * g
            x = x * (1.0 - 0.25 * weight_decay) - 0.25 * np.sign(average)
        else:
            average = momentum * average + g + weight_decay * x
            x = x - 0.25 * np.sign(average)
        np.testing.assert_allclose(parameter.detach().numpy(), x, rtol=0, atol=1e-5)
        assert optimizer.param_groups[0]["lr"] == 0.25


def gradient_of(run: UnlearningRun, loss: Callable[[list[int]], Tensor], indices: list[int]) -> list[Tensor]:
    return list(torch.autograd.grad(loss(indices), run.parameters, allow_unused=True, materialize_grads=True))


@pytest.mark.parametrize("micro_batch", [None, 2])
@pytest.mark.parametrize("method", ["gdiff", "ga"])
def test_under_sam_only_the_forget_gradient_of_a_step_is_that_at_the_perturbed_weights(
    start: Start, method: str, micro_batch: int | None
) -> None:
    options = {"c": 0.25} if method == "gdiff" else {}
    run = start(
        method=method, update="sam", sam_rho=0.5, options=options, optimizer="sgd", lr=1.0, micro_batch=micro_batch
    )
    before = weights_of(run)
    g_r, g_f = gradient_of(run, run.losses.retain, RETAIN), gradient_of(run, run.losses.forget, FORGET)
    length = float(torch.cat([g.flatten() for g in g_f]).double().norm())
    with torch.no_grad():
        for parameter, g in zip(run.parameters, g_f, strict=True):
            parameter.add_(g, alpha=0.5 / length)
    perturbed = gradient_of(run, run.losses.forget, FORGET)
    with torch.no_grad():
        for parameter, value in zip(run.parameters, before, strict=True):
            parameter.copy_(value)
    columns = run._train_step(FORGET, RETAIN)
    c = 0.25 if method == "gdiff" else 0.0
    for parameter, old, r, f, plain in zip(run.parameters, before, g_r, perturbed, g_f, strict=True):
        step = old - parameter.detach()
        torch.testing.assert_close(step, c * r + (1.0 - c) * f, rtol=1e-3, atol=1e-5)
        assert not plain.any() or not torch.allclose(f, plain, rtol=1e-2, atol=1e-5)
    assert columns["train_forget_loss"] < 0


WITH_FORGET_GRADIENT = [name for name, item in WEIGHTINGS.items() if item.needs is not Needs.RETAIN_ONLY]


@pytest.mark.parametrize(
    ("update", "method", "lora_rank"),
    [
        *((update, name, None) for update in ("sam", "repselect") for name in WITH_FORGET_GRADIENT),
        *((update, "ngdiff", 2) for update in NAMES if update != "repselect"),
    ],
)
def test_an_update_works_with_each_weighting_and_with_lora(
    start: Start, update: str, method: str, lora_rank: int | None
) -> None:
    run = start(method=method, update=update, lora_rank=lora_rank, lr=1e-3)
    assert trial_problems(run.spec) == []
    before = weights_of(run)
    run._train_step(FORGET, RETAIN)
    after = weights_of(run)
    assert all(bool(weights.isfinite().all()) for weights in after)
    assert not same_bits(after, before)


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        ({"update": "sam", "method": "gd"}, ("update sam", "'gd'")),
        ({"update": "repselect", "method": "gd"}, ("update repselect", "'gd'")),
        ({"update": "repselect", "lora_rank": 4}, ("update repselect", "lora_rank 4", "lora_rank none")),
        (
            {"update": "repselect", "dataset": "digits", "model": "tiny-resnet"},
            ("update repselect", "data set digits", "no decoder blocks"),
        ),
        ({"update": "sign", "optimizer": "prodigy", "lr": 1.0}, ("update sign", "optimizer prodigy", "adamw or sgd")),
        ({"update": "swim"}, ("'swim'", "plain", "sam")),
        ({"update": "sam", "sam_rho": 0.0}, ("sam_rho", "0")),
    ],
)
def test_a_combination_without_sense_is_refused_with_both_sides_named(
    changes: dict[str, Any], facts: tuple[str, ...]
) -> None:
    (problem,) = trial_problems(replace(TrialSpec(), **changes))
    for fact in facts:
        assert fact in problem


def test_a_trial_without_an_update_keeps_the_hash_that_it_had_before_there_were_updates() -> None:
    assert TrialSpec().spec_hash == "03776424acbe8c15"
    assert TrialSpec(update="sam").spec_hash != TrialSpec().spec_hash
    assert TrialSpec(update="sam", sam_rho=0.1).spec_hash != TrialSpec(update="sam").spec_hash
    old = {
        name: value
        for name, value in TrialSpec().to_dict().items()
        if name not in ("update", "sam_rho", "repselect_share", "repselect_adapter_lr")
    }
    assert TrialSpec.from_dict(old) == TrialSpec()


def test_sign_under_autolr_takes_steps_at_the_rate_that_the_rule_chose(start: Start, make_spec: MakeSpec) -> None:
    run = start(method="ngdiff", update="sign", auto_lr="gen", auto_lr_start=1, auto_lr_every=1, lr=1e-4)
    before = weights_of(run)
    run._train_step(FORGET, RETAIN)
    moves = torch.cat([(now.detach() - old).flatten() for now, old in zip(run.parameters, before, strict=True)])
    lengths = moves[moves != 0].abs()
    assert float(lengths.median()) == pytest.approx(run.rate, rel=1e-2)
