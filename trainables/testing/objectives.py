"""Checks of the properties that every forget objective must have, for tests of your own objectives:

check_objective(MINE)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from search_spaces.fields import defaults
from trainables.objectives import ForgetBatch, ForgetObjective, HiddenBatch, MeanOver, Reference
from trainables.testing.options import check_options, option_values
from trainables.weightings import WEIGHTINGS

_LABELS = torch.tensor([[1, 3, -100, -100], [-100, 2, 0, 4], [0, 1, 2, 3]])
"""The labels of three sequences of different lengths, with a vocabulary of five tokens; -100 if not supervised."""

_Value = Callable[..., Tensor]
"""Returns the loss for logits or hidden states ``(B, S, 5)`` of the sequences ``rows``, padded by ``margin``."""


def check_objective(objective: ForgetObjective, *, detached: bool = False) -> None:
    """Run all checks below on a small batch, in float64.

    Set ``detached`` if the loss contains the model's own detached prediction. Then the gradient is not the slope of the
    loss, so it is not compared with finite differences and needs a test of its own.

    Raises:
        AssertionError: a check failed; the message says which.
    """
    check_record(objective)
    drawn = torch.randn(*_LABELS.shape, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for options in option_values(objective.options):
        check_finite(_value(objective, options), drawn)
    value = _value(objective, defaults(objective.options))
    check_pull(value, drawn)
    if not detached:
        check_slope(value, drawn)
    check_batch(value, drawn)
    check_parts(objective, value, drawn)
    check_precision(value, drawn)


def check_record(objective: ForgetObjective) -> None:
    """Check that the record can be shown in a list, that its fields are consistent, and that its options are valid."""
    assert objective.formula, "the formula is empty"
    assert "\n" not in objective.formula + objective.citation, "formula and citation must be one line each"
    assert "20" in objective.citation, "the citation names no year"
    assert (objective.loss is None) != (objective.hidden_loss is None), (
        "an objective has either 'loss' or 'hidden_loss'"
    )
    hidden = objective.reference is Reference.HIDDEN
    assert hidden == (objective.loss is None), (
        "'hidden_loss' requires Reference.HIDDEN, and 'loss' requires another reference"
    )
    assert objective.weighting in WEIGHTINGS, f"unknown weighting '{objective.weighting}'"
    check_options(objective.options)


def check_finite(value: _Value, drawn: Tensor) -> None:
    """Check that the loss is a finite scalar with a finite gradient."""
    loss, gradient = _with_gradient(value, drawn)
    assert bool(loss.isfinite()), f"the loss is {float(loss)}"
    assert bool(gradient.isfinite().all()), "the gradient is not finite"


def check_pull(value: _Value, drawn: Tensor) -> None:
    """Check that the gradient is 0 at unsupervised positions, and not 0 everywhere."""
    _, gradient = _with_gradient(value, drawn)
    assert not gradient[_LABELS == -100].any(), "positions without a label have a gradient"
    assert gradient.any(), "the loss does not depend on the model's output"


def check_slope(value: _Value, drawn: Tensor) -> None:
    """Check that the gradient matches finite differences."""
    _, gradient = _with_gradient(value, drawn)
    step = 1e-5
    slopes = torch.zeros_like(drawn)
    for place in range(drawn.numel()):
        moved = torch.zeros(drawn.numel(), dtype=drawn.dtype).index_fill_(0, torch.tensor(place), step).view_as(drawn)
        slopes.view(-1)[place] = (value(drawn + moved) - value(drawn - moved)) / (2 * step)
    off = float((slopes - gradient).abs().max())
    assert torch.allclose(gradient, slopes, rtol=1e-6, atol=1e-8), (
        f"the gradient is off by {off:g} from finite differences: see 'detached'"
    )


def check_batch(value: _Value, drawn: Tensor) -> None:
    """Check that padding and the order of the sequences change neither the loss nor the gradients."""
    loss, gradient = _with_gradient(value, drawn)
    padded, widened = _with_gradient(value, pad(drawn, (0, 0, 2, 3), value=7.0), margin=(2, 3))
    assert _close(padded, loss), f"padding changes the loss from {float(loss):g} to {float(padded):g}"
    assert _close(widened[:, 2:-3], gradient), "padding changes the gradient"
    rows = [2, 0, 1]
    turned, permuted = _with_gradient(value, drawn[rows], rows=rows)
    assert _close(turned, loss), (
        f"another order of the sequences changes the loss from {float(loss):g} to {float(turned):g}"
    )
    assert _close(permuted, gradient[rows]), "another order of the sequences changes the gradients"


def check_parts(objective: ForgetObjective, value: _Value, drawn: Tensor) -> None:
    """Check that a batch's loss is the sum of its parts' losses, weighted by their shares of ``mean_over`` units."""
    supervised = (_LABELS != -100).sum(dim=1)
    # In these checks, the unsupervised positions are the padding of hidden states.
    units = torch.ones(len(_LABELS)) if objective.mean_over is MeanOver.SEQUENCES else supervised
    shares = (units / units.sum()).double().tolist()
    parts = ([0], [2, 1])
    summed = sum(sum(shares[row] for row in rows) * value(drawn[rows], rows=rows) for rows in parts)
    whole = value(drawn)
    assert torch.allclose(torch.as_tensor(summed), whole, rtol=1e-6), (
        f"computed in parts, the loss is {float(summed):g} instead of {float(whole):g}: is it a mean over "
        f"{objective.mean_over}?"
    )


def check_precision(value: _Value, drawn: Tensor) -> None:
    """Check that bf16 outputs give a float32 loss, close to the loss of the same numbers in float64."""
    rounded = drawn.bfloat16()
    loss = value(rounded)
    assert loss.dtype is torch.float32, f"outputs in bf16 must give a loss in float32, got {loss.dtype}"
    exact = float(value(rounded.double()))
    assert math.isclose(float(loss), exact, rel_tol=1e-4, abs_tol=1e-4), (
        f"the loss of bf16 outputs is {float(loss):g}, expected {exact:g}"
    )


# Helpers -------------------------------------------------------------------------------------------------------------


def _value(objective: ForgetObjective, options: dict[str, float]) -> _Value:
    """Return a function that computes the objective's loss, with only the target's values that it declares to need."""
    needs, pair = objective.reference, objective.reference is Reference.PAIR_NLL
    fixed = torch.Generator().manual_seed(1)
    target_logits = torch.randn(*_LABELS.shape, 5, generator=fixed, dtype=torch.float64)
    target_nll = torch.tensor([[4.0, 6.5, 9.0], [8.0, 7.0, 11.0]], dtype=torch.float64)

    def value(x: Tensor, *, rows: Sequence[int] = (0, 1, 2), margin: tuple[int, int] = (0, 0)) -> Tensor:
        chosen = list(rows)
        labels = pad(_LABELS[chosen], margin, value=-100)
        exact = x.to(torch.promote_types(x.dtype, torch.float32))
        if objective.hidden_loss is not None:
            direction = torch.full((5,), 5**-0.5, dtype=exact.dtype)
            return unchanged(objective.hidden_loss, HiddenBatch(x, labels != -100, direction))
        assert objective.loss is not None, "check_record checks this"
        answer_nll, refusal_nll = target_nll[:, chosen].to(exact.dtype)
        known = ForgetBatch(
            logits=x,
            labels=labels,
            token_nll=_token_nll(exact, labels),
            supervised=labels != -100,
            reference_nll=answer_nll if pair or needs is Reference.SEQUENCE_NLL else None,
            # The likelihood of the refusals also depends on the model.
            refusal_nll=_token_nll(0.5 * exact, labels).sum(dim=1) if pair else None,
            reference_refusal_nll=refusal_nll if pair else None,
            reference_logits=pad(target_logits[chosen], (0, 0, *margin)).to(x.dtype)
            if needs is Reference.LOGITS
            else None,
        )
        return unchanged(objective.loss, known)

    def unchanged(loss: Callable[[Any, dict[str, float]], Tensor], batch: ForgetBatch | HiddenBatch) -> Tensor:
        tensors = [part for field in fields(batch) if (part := getattr(batch, field.name)) is not None]
        before, given = [part.detach().clone() for part in tensors], dict(options)
        found = loss(batch, given)
        assert found.shape == (), f"the loss must be a scalar, has shape {tuple(found.shape)}"
        same = given == options and all(map(torch.equal, before, tensors))
        assert same, "the objective changes its batch or its options"
        return found

    return value


def _token_nll(logits: Tensor, labels: Tensor) -> Tensor:
    log_p = torch.log_softmax(logits, dim=-1).gather(2, labels.clamp(min=0)[:, :, None]).squeeze(2)
    return torch.where(labels != -100, -log_p, 0.0)


def _with_gradient(value: _Value, drawn: Tensor, **sequences: Any) -> tuple[Tensor, Tensor]:
    x = drawn.clone().requires_grad_()
    loss = value(x, **sequences)
    (gradient,) = torch.autograd.grad(loss, x)
    return loss.detach(), gradient


def _close(one: Tensor, other: Tensor) -> bool:
    return torch.allclose(one, other, rtol=1e-9, atol=1e-12)
