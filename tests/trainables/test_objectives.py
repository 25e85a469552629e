"""The objectives on logits against closed forms, torch's own losses and float64 finite differences."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div, one_hot

from trainables.objectives import OBJECTIVES, ForgetBatch, ForgetObjective, MeanOver
from trainables.objectives.retain import kl_to_target
from trainables.testing.objectives import check_objective

LABELS = torch.tensor([[1, 3, -100, -100], [-100, 2, 0, 4], [0, 1, 2, 3]])
REFERENCE = torch.tensor([4.0, 6.5, 9.0], dtype=torch.float64)
LOGITS = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
TARGET_LOGITS = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
REFUSALS_REFERENCE = torch.tensor([8.0, 7.0, 11.0], dtype=torch.float64)
SUPERVISED = LABELS != -100


def _batch(logits: Tensor, reference: Tensor | None = REFERENCE) -> ForgetBatch:
    return ForgetBatch(
        logits=logits,
        labels=LABELS,
        token_nll=_token_nll(logits),
        supervised=SUPERVISED,
        reference_nll=reference,
        # The refusals' likelihood moves with the logits, too.
        refusal_nll=_token_nll(0.5 * logits).sum(dim=1),
        reference_refusal_nll=REFUSALS_REFERENCE,
        reference_logits=TARGET_LOGITS,
    )


def _token_nll(logits: Tensor) -> Tensor:
    log_p = torch.log_softmax(logits, dim=-1).gather(2, LABELS.clamp(min=0)[:, :, None]).squeeze(2)
    return torch.where(SUPERVISED, -log_p, 0.0)


def _sums() -> list[float]:
    """The NLL of each sequence, summed token by token with ``math`` alone."""
    sums = []
    for row, labels in zip(LOGITS.tolist(), LABELS.tolist(), strict=True):
        sums.append(
            sum(
                math.log(sum(math.exp(z) for z in logits)) - logits[label]
                for logits, label in zip(row, labels, strict=True)
                if label != -100
            )
        )
    return sums


def _gradient(loss: Callable[[Tensor], Tensor], point: Tensor = LOGITS) -> Tensor:
    logits = point.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(logits), logits)
    return gradient


def _finite_differences(loss: Callable[[Tensor], Tensor]) -> Tensor:
    step = 1e-5
    slopes = torch.zeros_like(LOGITS).flatten()
    for index in range(LOGITS.numel()):
        values = []
        for sign in (1.0, -1.0):
            moved = LOGITS.clone().flatten()
            moved[index] += sign * step
            values.append(float(loss(moved.view_as(LOGITS))))
        slopes[index] = (values[0] - values[1]) / (2 * step)
    return slopes.view_as(LOGITS)


def _loss(name: str, batch: Callable[[Tensor], ForgetBatch] = _batch, **options: float) -> Callable[[Tensor], Tensor]:
    """The objective as a function of the logits, with its defaults unless options are given."""
    objective = OBJECTIVES[name]
    values = {option.name: option.default for option in objective.options} | options
    assert objective.loss is not None
    return lambda logits: objective.loss(batch(logits), values)  # type: ignore[misc]


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


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=list(OBJECTIVES))
def test_every_objective_passes_the_suite(objective: ForgetObjective) -> None:
    check_objective(objective, detached=objective.name in DETACHED)


@pytest.mark.parametrize("name", DETACHED)
def test_a_detached_objective_has_its_formulas_value_and_finite_differences_with_its_detached_part_fixed(
    name: str,
) -> None:
    assert float(_loss(name)(LOGITS)) == pytest.approx(float(_frozen(name)(LOGITS)), rel=1e-12)
    torch.testing.assert_close(_gradient(_loss(name)), _finite_differences(_frozen(name)), rtol=1e-6, atol=1e-8)


BROKEN: dict[str, Callable[[ForgetBatch], Tensor]] = {
    "must be a scalar": lambda batch: -batch.token_nll.sum(dim=1),
    "the loss is": lambda batch: -batch.token_nll.sum() / 0.0,
    "gradient is off": lambda batch: -(batch.token_nll * batch.token_nll.detach()).sum(),
    "without a label": lambda batch: -batch.logits.square().mean(),
    "padding changes the loss": lambda batch: -batch.token_nll.mean(),
    "another order": lambda batch: -(batch.token_nll[0].sum() + 2.0 * batch.token_nll[1:].sum()),
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


def test_simnpo_is_npo_of_mean_losses_against_a_margin() -> None:
    beta, delta = 2.5, 0.7
    terms = [
        (2 / beta) * math.log(1 + math.exp(-beta * (nll / length - delta)))
        for nll, length in zip(_sums(), [2, 3, 4], strict=True)
    ]
    assert float(_loss("simnpo", beta=beta, delta=delta)(LOGITS)) == pytest.approx(sum(terms) / 3, rel=1e-12)


# DPO -----------------------------------------------------------------------------------------------------------------


def test_dpo_is_the_published_loss_of_the_two_log_ratios_times_two_over_beta() -> None:
    """DPO, Eq. 7: ``-log sigmoid(beta log(p/p_ref)(preferred) - beta log(p/p_ref)(dispreferred))``."""
    beta = 0.4
    batch = _batch(LOGITS)
    terms = []
    for index, forget in enumerate(_sums()):
        preferred = math.exp(-float(batch.refusal_nll[index])) / math.exp(-float(REFUSALS_REFERENCE[index]))
        dispreferred = math.exp(-forget) / math.exp(-float(REFERENCE[index]))
        terms.append(-math.log(1 / (1 + (preferred / dispreferred) ** -beta)))
    assert float(_loss("dpo", beta=beta)(LOGITS)) == pytest.approx(2 / beta * sum(terms) / 3, rel=1e-9)


# UNDIAL --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beta", [0.5, 10.0])
def test_undial_is_the_cross_entropy_to_the_targets_adjusted_prediction(beta: float) -> None:
    lowered = TARGET_LOGITS[SUPERVISED] - beta * one_hot(LABELS[SUPERVISED], 5)
    expected = cross_entropy(LOGITS[SUPERVISED], lowered.softmax(dim=1))
    assert float(_loss("undial", beta=beta)(LOGITS)) == pytest.approx(float(expected), rel=1e-12)


# KL to the target ----------------------------------------------------------------------------------------------------


def _kl(logits: Tensor) -> Tensor:
    return kl_to_target(logits, TARGET_LOGITS, SUPERVISED)


def test_kl_and_its_gradient_are_those_of_torch_and_of_finite_differences() -> None:
    expected = kl_div(
        LOGITS[SUPERVISED].log_softmax(dim=1), TARGET_LOGITS[SUPERVISED].softmax(dim=1), reduction="batchmean"
    )
    assert float(_kl(LOGITS)) == pytest.approx(float(expected), rel=1e-12)
    torch.testing.assert_close(_gradient(_kl), _finite_differences(_kl), rtol=1e-6, atol=1e-8)


def test_kl_is_zero_with_zero_gradient_at_the_target_whatever_the_unsupervised_logits() -> None:
    elsewhere = torch.where(SUPERVISED[:, :, None], TARGET_LOGITS, LOGITS)
    assert float(_kl(elsewhere)) == 0.0
    assert float(_gradient(_kl, elsewhere).abs().max()) < 1e-15


# Ascent and NPO ------------------------------------------------------------------------------------------------------


def test_ascent_is_the_negated_mean_over_supervised_tokens() -> None:
    ascent = _loss("ascent", lambda logits: _batch(logits, None))
    assert float(ascent(LOGITS)) == pytest.approx(-sum(_sums()) / 9, rel=1e-12)


def test_npo_is_the_mean_over_sequences_of_their_summed_loss_against_the_target() -> None:
    """NPO, Eq. 3: ``-(2/beta) log sigmoid(-beta log(p/p_ref))``, with ``log(p/p_ref) = NLL_ref - NLL``."""
    beta = 0.3
    terms = [
        -(2 / beta) * math.log(1 / (1 + math.exp(beta * (reference - nll))))
        for nll, reference in zip(_sums(), REFERENCE.tolist(), strict=True)
    ]
    assert float(_loss("npo", beta=beta)(LOGITS)) == pytest.approx(sum(terms) / 3, rel=1e-12)
