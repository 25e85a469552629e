"""The ascent and NPO objectives against closed forms and float64 finite differences."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from trainables.objectives import OBJECTIVES, ForgetBatch, Reference

LABELS = torch.tensor([[1, 3, -100, -100], [-100, 2, 0, 4], [0, 1, 2, 3]])
REFERENCE = torch.tensor([4.0, 6.5, 9.0], dtype=torch.float64)
LOGITS = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def _batch(logits: Tensor, reference: Tensor | None = REFERENCE) -> ForgetBatch:
    supervised = LABELS != -100
    log_p = torch.log_softmax(logits, dim=-1).gather(2, LABELS.clamp(min=0)[:, :, None]).squeeze(2)
    nll = torch.where(supervised, -log_p, 0.0)
    return ForgetBatch(logits=logits, labels=LABELS, token_nll=nll, supervised=supervised, reference_nll=reference)


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


def _gradient(loss: Callable[[Tensor], Tensor]) -> Tensor:
    logits = LOGITS.clone().requires_grad_()
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


def _ascent(logits: Tensor) -> Tensor:
    return OBJECTIVES["ascent"].loss(_batch(logits, None), {})


def _npo(beta: float) -> Callable[[Tensor], Tensor]:
    return lambda logits: OBJECTIVES["npo"].loss(_batch(logits), {"beta": beta})


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


@pytest.mark.parametrize("loss", [_ascent, _npo(0.1), _npo(3.0)], ids=["ascent", "npo-0.1", "npo-3"])
def test_the_gradient_is_that_of_finite_differences(loss: Callable[[Tensor], Tensor]) -> None:
    torch.testing.assert_close(_gradient(loss), _finite_differences(loss), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("loss", [_ascent, _npo(0.1)], ids=["ascent", "npo"])
def test_positions_without_a_label_have_no_gradient(loss: Callable[[Tensor], Tensor]) -> None:
    gradient = _gradient(loss)
    assert float(gradient[LABELS == -100].abs().max()) == 0.0
    assert float(gradient[LABELS != -100].abs().min()) > 0.0


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
