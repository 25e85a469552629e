"""The objectives on logits against closed forms, torch's own losses and float64 finite differences."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div, one_hot

from trainables.objectives import OBJECTIVES, ForgetBatch, ForgetObjective, Reference
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


def _gradient_at(loss: Callable[[Tensor], Tensor], point: Tensor) -> Tensor:
    logits = point.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(logits), logits)
    return gradient


def _gradient(loss: Callable[[Tensor], Tensor]) -> Tensor:
    return _gradient_at(loss, LOGITS)


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


def _ascent(logits: Tensor) -> Tensor:
    return OBJECTIVES["ascent"].loss(_batch(logits, None), {})


def _npo(beta: float) -> Callable[[Tensor], Tensor]:
    return lambda logits: OBJECTIVES["npo"].loss(_batch(logits), {"beta": beta})


def _loss(name: str) -> Callable[[Tensor], Tensor]:
    """The objective with its defaults, as a function of the logits."""
    objective = OBJECTIVES[name]
    return lambda logits: objective.loss(_batch(logits), {option.name: option.default for option in objective.options})


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
def test_every_objective_keeps_what_all_promise(objective: ForgetObjective) -> None:
    check_objective(objective, detached=objective.name in DETACHED)


@pytest.mark.parametrize("name", DETACHED)
def test_a_detached_objectives_gradient_is_that_of_finite_differences_with_its_detached_part_fixed(name: str) -> None:
    torch.testing.assert_close(_gradient(_loss(name)), _finite_differences(_frozen(name)), rtol=1e-6, atol=1e-8)


ASCENT = OBJECTIVES["ascent"]
BROKEN: dict[str, Callable[[ForgetBatch], Tensor]] = {
    "must be a scalar": lambda batch: -batch.token_nll.sum(dim=1),
    "the loss is": lambda batch: -batch.token_nll.sum() / 0.0,
    "the gradient is off": lambda batch: -(batch.token_nll * batch.token_nll.detach()).sum(),
    "positions without a label": lambda batch: -batch.logits.square().mean(),
    "padding turns": lambda batch: -batch.token_nll.mean(),
    "another order": lambda batch: -(batch.token_nll[0].sum() + 2.0 * batch.token_nll[1:].sum()),
    "a loss in float32": lambda batch: -batch.logits[batch.supervised].square().mean(),
    "were changed": lambda batch: -batch.token_nll.masked_fill_(~batch.supervised, 1.0).sum(),
    "does not depend": lambda batch: 0.0 * batch.token_nll.sum(),
}


@pytest.mark.parametrize("said", BROKEN)
def test_an_objective_that_breaks_a_promise_is_told_which(said: str) -> None:
    broken = replace(ASCENT, loss=lambda batch, options: BROKEN[said](batch))
    with pytest.raises(AssertionError, match=said):
        check_objective(broken)


@pytest.mark.parametrize("name", DETACHED)
def test_a_detached_objective_has_the_value_of_its_formula(name: str) -> None:
    assert float(_loss(name)(LOGITS)) == pytest.approx(float(_frozen(name)(LOGITS)), rel=1e-12)


def test_simnpo_is_npo_of_mean_losses_against_a_margin() -> None:
    beta, delta = 2.5, 0.7
    lengths = [2, 3, 4]
    terms = [
        (2 / beta) * math.log(1 + math.exp(-beta * (nll / length - delta)))
        for nll, length in zip(_sums(), lengths, strict=True)
    ]
    found = OBJECTIVES["simnpo"].loss(_batch(LOGITS), {"beta": beta, "delta": delta})
    assert float(found) == pytest.approx(sum(terms) / 3, rel=1e-12)


# DPO -----------------------------------------------------------------------------------------------------------------


def _dpo(logits: Tensor, beta: float, **changes: Tensor) -> Tensor:
    return OBJECTIVES["dpo"].loss(replace(_batch(logits), **changes), {"beta": beta})


def test_dpo_is_the_published_loss_of_the_two_log_ratios_times_two_over_beta() -> None:
    """DPO, Eq. 7: ``-log sigmoid(beta log(p/p_ref)(preferred) - beta log(p/p_ref)(dispreferred))``."""
    beta = 0.4
    batch = _batch(LOGITS)
    terms = []
    for index, forget in enumerate(_sums()):
        won = float(batch.refusal_nll[index])
        preferred = math.exp(-won) / math.exp(-float(REFUSALS_REFERENCE[index]))
        dispreferred = math.exp(-forget) / math.exp(-float(REFERENCE[index]))
        terms.append(-math.log(1 / (1 + (preferred / dispreferred) ** -beta)))
    assert float(_dpo(LOGITS, beta)) == pytest.approx(2 / beta * sum(terms) / 3, rel=1e-9)


@pytest.mark.parametrize("beta", [0.1, 3.0])
def test_at_the_target_dpo_is_a_constant(beta: float) -> None:
    batch = _batch(LOGITS)
    at_target = {"reference_nll": batch.token_nll.sum(dim=1), "reference_refusal_nll": batch.refusal_nll}
    assert float(_dpo(LOGITS, beta, **at_target)) == pytest.approx(2 * math.log(2) / beta, rel=1e-12)


def test_dpo_falls_as_the_refusal_grows_likelier_and_the_answer_less_likely() -> None:
    batch = _batch(LOGITS)
    now = float(_dpo(LOGITS, 0.1))
    assert float(_dpo(LOGITS, 0.1, refusal_nll=batch.refusal_nll - 1.0)) < now
    assert float(_dpo(LOGITS, 0.1, token_nll=batch.token_nll + SUPERVISED)) < now


# UNDIAL --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beta", [0.5, 10.0])
def test_undial_is_the_cross_entropy_to_the_targets_adjusted_prediction(beta: float) -> None:
    lowered = TARGET_LOGITS[SUPERVISED] - beta * one_hot(LABELS[SUPERVISED], 5)
    expected = cross_entropy(LOGITS[SUPERVISED], lowered.softmax(dim=1))
    found = OBJECTIVES["undial"].loss(_batch(LOGITS), {"beta": beta})
    assert float(found) == pytest.approx(float(expected), rel=1e-12)


def test_undial_is_least_where_the_model_predicts_the_adjusted_distribution() -> None:
    lowered = TARGET_LOGITS - 3.0 * one_hot(LABELS.clamp(min=0), 5)
    gradient = _gradient_at(lambda logits: OBJECTIVES["undial"].loss(_batch(logits), {"beta": 3.0}), lowered)
    assert float(gradient.abs().max()) < 1e-12


# KL to the target ----------------------------------------------------------------------------------------------------


def _kl(logits: Tensor) -> Tensor:
    return kl_to_target(logits, TARGET_LOGITS, SUPERVISED)


def test_kl_is_torchs_over_supervised_tokens() -> None:
    expected = kl_div(
        LOGITS[SUPERVISED].log_softmax(dim=1), TARGET_LOGITS[SUPERVISED].softmax(dim=1), reduction="batchmean"
    )
    assert float(_kl(LOGITS)) == pytest.approx(float(expected), rel=1e-12)


def test_kls_gradient_is_that_of_finite_differences() -> None:
    torch.testing.assert_close(_gradient(_kl), _finite_differences(_kl), rtol=1e-6, atol=1e-8)


def test_kl_is_zero_with_zero_gradient_at_the_target_whatever_the_unsupervised_positions_say() -> None:
    elsewhere = torch.where(SUPERVISED[:, :, None], TARGET_LOGITS, LOGITS)
    assert float(_kl(elsewhere)) == 0.0
    assert float(_gradient_at(_kl, elsewhere).abs().max()) < 1e-15


# Ascent and NPO ------------------------------------------------------------------------------------------------------


def test_ascent_is_the_negated_mean_over_supervised_tokens() -> None:
    assert float(_ascent(LOGITS)) == pytest.approx(-sum(_sums()) / 9, rel=1e-12)


def test_npo_is_the_mean_over_sequences_of_their_summed_loss_against_the_target() -> None:
    """NPO, Eq. 3: ``-(2/beta) log sigmoid(-beta log(p/p_ref))``, with ``log(p/p_ref) = NLL_ref - NLL``."""
    beta = 0.3
    terms = [
        -(2 / beta) * math.log(1 / (1 + math.exp(beta * (reference - nll))))
        for nll, reference in zip(_sums(), REFERENCE.tolist(), strict=True)
    ]
    assert float(_npo(beta)(LOGITS)) == pytest.approx(sum(terms) / 3, rel=1e-12)


def _sequence_ascent(logits: Tensor) -> Tensor:
    return -_batch(logits).token_nll.sum(dim=1).mean()


def test_npo_tends_to_ascent_as_beta_vanishes() -> None:
    """In the gradient: the loss itself keeps the constant ``2 log 2 / beta``. First order in beta."""
    ascent = _gradient(_sequence_ascent)
    errors = [float((_gradient(_npo(beta)) - ascent).abs().max()) for beta in (1e-2, 1e-3, 1e-6)]
    assert errors[0] < 0.05
    assert errors[1] == pytest.approx(errors[0] / 10, rel=0.05)
    assert errors[2] < 1e-5


def test_at_the_target_npo_is_a_constant_with_the_gradient_of_ascent() -> None:
    """NLL = NLL_ref: sigmoid(0) = 1/2, whatever beta; ``-(2/beta) beta (1 - 1/2) = -1``."""
    own = torch.tensor(_sums(), dtype=torch.float64)
    for beta in (0.1, 5.0):

        def loss(logits: Tensor, beta: float = beta) -> Tensor:
            return OBJECTIVES["npo"].loss(_batch(logits, own), {"beta": beta})

        assert float(loss(LOGITS)) == pytest.approx(2 * math.log(2) / beta, rel=1e-12)
        torch.testing.assert_close(_gradient(loss), _gradient(_sequence_ascent), rtol=1e-9, atol=1e-12)


def test_npo_is_bounded_below_by_zero_and_stays_finite_where_the_model_has_forgotten() -> None:
    supervised = LABELS != -100
    for size in (1e3, 1e6):
        nll = torch.where(supervised, size, 0.0).requires_grad_()
        batch = ForgetBatch(
            logits=LOGITS, labels=LABELS, token_nll=nll, supervised=supervised, reference_nll=torch.zeros(3)
        )
        loss = OBJECTIVES["npo"].loss(batch, {"beta": 1.0})
        assert 0.0 <= float(loss.detach()) < 1e-30
        (gradient,) = torch.autograd.grad(loss, nll)
        assert float(gradient.abs().max()) == 0.0


def test_npo_asks_for_the_targets_likelihoods_and_ascent_for_none() -> None:
    assert OBJECTIVES["npo"].reference is Reference.SEQUENCE_NLL
    assert OBJECTIVES["ascent"].reference is Reference.NONE
