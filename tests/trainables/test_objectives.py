"""The objectives on logits: their formulas written out, torch's own losses, and the suite for plug-ins."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div, one_hot

from trainables.objectives import OBJECTIVES, ForgetBatch, ForgetObjective, MeanOver
from trainables.objectives.retain import js_to_target, kl_to_target
from trainables.testing.objectives import check_objective

LABELS = torch.tensor([[1, 3, -100, -100], [-100, 2, 0, 4], [0, 1, 2, 3]])
REFERENCE = torch.tensor([4.0, 6.5, 9.0], dtype=torch.float64)
REFUSALS_REFERENCE = torch.tensor([8.0, 7.0, 11.0], dtype=torch.float64)
LOGITS = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
TARGET_LOGITS = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
SUPERVISED = LABELS != -100
_ROWS = LOGITS[SUPERVISED].numpy()


def _token_nll(logits: Tensor) -> Tensor:
    return cross_entropy(logits.transpose(1, 2), LABELS, reduction="none")


def _batch(logits: Tensor) -> ForgetBatch:
    return ForgetBatch(
        logits=logits,
        labels=LABELS,
        token_nll=_token_nll(logits),
        supervised=SUPERVISED,
        reference_nll=REFERENCE,
        # The refusals' likelihood moves with the logits, too.
        preferred_nll=_token_nll(0.5 * logits).sum(dim=1),
        preferred_probability=((-_token_nll(0.5 * logits)).exp() * SUPERVISED).sum(dim=1) / SUPERVISED.sum(dim=1),
        reference_preferred_nll=REFUSALS_REFERENCE,
        reference_logits=TARGET_LOGITS,
        refusal_tokens=(LABELS + 2) % 5,
    )


def _sums() -> list[float]:
    """The NLL of each sequence, summed token by token with ``math`` alone."""
    rows = zip(LOGITS.tolist(), LABELS.tolist(), strict=True)
    return [
        sum(math.log(sum(map(math.exp, row))) - row[label] for row, label in zip(*tokens, strict=True) if label >= 0)
        for tokens in rows
    ]


def _gradient(loss: Callable[[Tensor], Tensor], point: Tensor = LOGITS) -> Tensor:
    logits = point.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(logits), logits)
    return gradient


def _loss(name: str, **options: float) -> Callable[[Tensor], Tensor]:
    """The objective as a function of the logits, with its defaults unless options are given."""
    objective = OBJECTIVES[name]
    values = {option.name: option.default for option in objective.options} | options
    assert objective.loss is not None
    return lambda logits: objective.loss(_batch(logits), values)  # type: ignore[misc]


def _bounded(beta: float, margins: Iterable[float]) -> float:
    """``mean -(2/beta) log sigmoid(beta margin)``, over three sequences."""
    return sum(2 / beta * math.log(1 + math.exp(-beta * margin)) for margin in margins) / 3


def _dpo(beta: float) -> float:
    """DPO, Eq. 7, times two over beta: ``-log sigmoid(beta log(p/p_ref)(preferred) - beta log(p/p_ref)(other))``."""
    preferred = (math.exp(float(r - n)) for n, r in zip(_token_nll(LOGITS / 2).sum(1), REFUSALS_REFERENCE, strict=True))
    other = (math.exp(float(r - n)) for n, r in zip(_sums(), REFERENCE, strict=True))
    odds = [one / two for one, two in zip(preferred, other, strict=True)]
    return 2 / beta * sum(-math.log(1 / (1 + ratio**-beta)) for ratio in odds) / 3


def _undial(beta: float) -> float:
    lowered = TARGET_LOGITS[SUPERVISED] - beta * one_hot(LABELS[SUPERVISED], 5)
    return float(cross_entropy(LOGITS[SUPERVISED], lowered.softmax(dim=1)))


def _jensun() -> float:
    """The mean divergence, by scipy, whose distance is the square root."""
    tokens = (LABELS[SUPERVISED] + 2) % 5
    rows = zip(LOGITS[SUPERVISED].softmax(dim=1).tolist(), one_hot(tokens, 5).tolist(), strict=True)
    return sum(float(jensenshannon(p, q)) ** 2 for p, q in rows) / 9


def _flat() -> float:
    """The total variation's bound of each sequence, from the probabilities of its tokens, with ``math`` alone."""
    losses = []
    for tokens, row in zip(LOGITS.tolist(), LABELS.tolist(), strict=True):
        places = [(logits, label) for logits, label in zip(tokens, row, strict=True) if label >= 0]
        answer = [math.exp(logits[label]) / sum(map(math.exp, logits)) for logits, label in places]
        refusal = [math.exp(logits[label] / 2) / sum(math.exp(z / 2) for z in logits) for logits, label in places]
        losses.append(0.5 * math.tanh(sum(answer) / len(answer)) - 0.5 * math.tanh(sum(refusal) / len(refusal)))
    return sum(losses) / 3


FORMULAS: list[tuple[str, dict[str, float], Callable[[], float]]] = [
    ("ascent", {}, lambda: -sum(_sums()) / 9),
    # NPO, Eq. 3: ``-(2/beta) log sigmoid(-beta log(p/p_ref))``, with ``log(p/p_ref) = NLL_ref - NLL``.
    ("npo", {"beta": 0.3}, lambda: _bounded(0.3, (n - r for n, r in zip(_sums(), REFERENCE.tolist(), strict=True)))),
    (
        *("simnpo", {"beta": 2.5, "delta": 0.7}),
        lambda: _bounded(2.5, (n / length - 0.7 for n, length in zip(_sums(), (2, 3, 4), strict=True))),
    ),
    ("dpo", {"beta": 0.4}, lambda: _dpo(0.4)),
    ("undial", {"beta": 0.5}, lambda: _undial(0.5)),
    ("undial", {"beta": 10.0}, lambda: _undial(10.0)),
    ("jensun", {}, _jensun),
    ("flat", {}, _flat),
    ("max-logit", {}, lambda: float(np.square(_ROWS.max(axis=1) - _ROWS.mean(axis=1)).mean())),
]


@pytest.mark.parametrize(("name", "options", "expected"), FORMULAS)
def test_an_objective_has_the_value_of_its_formula(
    name: str, options: dict[str, float], expected: Callable[[], float]
) -> None:
    assert float(_loss(name, **options)(LOGITS)) == pytest.approx(expected(), rel=1e-9)


DETACHED = ("wga", "satimp", "ce-u")
"""Objectives whose weights or target are the model's own prediction, detached: not the slope of their value."""


def _frozen(name: str) -> Callable[[Tensor], Tensor]:
    """The value of a detached objective as a function of the logits, its detached part fixed at ``LOGITS``."""
    p = torch.exp(-_token_nll(LOGITS))
    count = int(SUPERVISED.sum())
    if name == "wga":
        return lambda logits: -(p * _token_nll(logits)).sum() / count
    if name == "satimp":
        return lambda logits: -(p**5 * (1 - p) * _token_nll(logits)).sum() / count
    without = LOGITS.softmax(dim=2) * (1 - one_hot(LABELS.clamp(min=0), 5))
    soft = without / without.sum(dim=2, keepdim=True)
    return lambda logits: -(soft * logits.log_softmax(dim=2)).sum(dim=2)[SUPERVISED].mean()


@pytest.mark.parametrize("name", DETACHED)
def test_a_detached_objective_has_its_formulas_value_and_gradient_with_its_detached_part_fixed(name: str) -> None:
    assert float(_loss(name)(LOGITS)) == pytest.approx(float(_frozen(name)(LOGITS)), rel=1e-12)
    torch.testing.assert_close(_gradient(_loss(name)), _gradient(_frozen(name)), rtol=1e-10, atol=1e-12)
    assert torch.autograd.gradcheck(_frozen(name), LOGITS.clone().requires_grad_(), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=list(OBJECTIVES))
def test_every_objective_passes_the_suite(objective: ForgetObjective) -> None:
    check_objective(objective)


@pytest.mark.parametrize("name", [name for name, item in OBJECTIVES.items() if item.loss and name not in DETACHED])
def test_the_gradient_of_an_objective_is_that_of_finite_differences(name: str) -> None:
    assert torch.autograd.gradcheck(_loss(name), LOGITS.clone().requires_grad_(), rtol=1e-6, atol=1e-8)


BROKEN: dict[str, Callable[[ForgetBatch], Tensor]] = {
    "must be a scalar": lambda batch: -batch.token_nll.sum(dim=1),
    "the loss is": lambda batch: -batch.token_nll.sum() / 0.0,
    "without a label": lambda batch: -batch.logits.square().mean(),
    "padding changes the loss": lambda batch: -batch.token_nll.mean(),
    "order of the sequences": lambda batch: -(batch.token_nll[0].sum() + 2.0 * batch.token_nll[1:].sum()),
    "float32": lambda batch: -batch.logits[batch.supervised].square().mean(),
    "changes its batch": lambda batch: -batch.token_nll.masked_fill_(~batch.supervised, 1.0).sum(),
    "does not depend": lambda batch: 0.0 * batch.token_nll.sum(),
}


@pytest.mark.parametrize("promise", BROKEN)
def test_the_broken_promise_of_an_objective_is_named(promise: str) -> None:
    broken = replace(OBJECTIVES["ascent"], loss=lambda batch, options: BROKEN[promise](batch))
    with pytest.raises(AssertionError, match=promise):
        check_objective(broken)


def test_a_mean_over_sequences_that_claims_to_be_one_over_tokens_is_named() -> None:
    with pytest.raises(AssertionError, match="supervised tokens"):
        check_objective(replace(OBJECTIVES["npo"], mean_over=MeanOver.TOKENS))


def _kl(logits: Tensor) -> Tensor:
    return kl_to_target(logits, TARGET_LOGITS, SUPERVISED)


def test_kl_to_the_target_is_that_of_torch_with_the_gradient_of_finite_differences_and_zero_at_the_target() -> None:
    log_p, p_target = LOGITS[SUPERVISED].log_softmax(dim=1), TARGET_LOGITS[SUPERVISED].softmax(dim=1)
    expected = kl_div(log_p, p_target, reduction="batchmean")
    assert float(_kl(LOGITS)) == pytest.approx(float(expected), rel=1e-12)
    assert torch.autograd.gradcheck(_kl, LOGITS.clone().requires_grad_(), rtol=1e-6, atol=1e-8)
    at_target = torch.where(SUPERVISED[:, :, None], TARGET_LOGITS, LOGITS)
    assert float(_kl(at_target)) == 0.0
    assert float(_gradient(_kl, at_target).abs().max()) < 1e-15


def _js(logits: Tensor) -> Tensor:
    return js_to_target(logits, TARGET_LOGITS, SUPERVISED)


def test_js_to_the_target_is_that_of_scipy_with_the_gradient_of_finite_differences_and_zero_at_the_target() -> None:
    rows = zip(
        LOGITS[SUPERVISED].softmax(dim=1).tolist(), TARGET_LOGITS[SUPERVISED].softmax(dim=1).tolist(), strict=True
    )
    assert float(_js(LOGITS)) == pytest.approx(sum(float(jensenshannon(p, q)) ** 2 for p, q in rows) / 9, rel=1e-9)
    assert torch.autograd.gradcheck(_js, LOGITS.clone().requires_grad_(), rtol=1e-6, atol=1e-8)
    assert float(_js(torch.where(SUPERVISED[:, :, None], TARGET_LOGITS, LOGITS))) == pytest.approx(0.0, abs=1e-15)


def test_jensun_goes_from_log_2_to_0_as_the_refusal_becomes_certain() -> None:
    tokens = one_hot((LABELS + 2) % 5, 5)
    assert float(_loss("jensun")(-200.0 * tokens.double())) == pytest.approx(math.log(2.0), abs=1e-15)
    assert float(_loss("jensun")(200.0 * tokens.double())) == pytest.approx(0.0, abs=1e-15)
