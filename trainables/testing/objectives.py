"""Check your own forget objective in a test: ``check_objective(MINE)``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, pad

from search_spaces.fields import defaults
from trainables.objectives import ForgetBatch, ForgetObjective, HiddenBatch, MeanOver, Reference
from trainables.testing.options import check_options, option_values
from trainables.weightings import WEIGHTINGS

_LABELS = torch.tensor([[1, 3, -100, -100], [-100, 2, 0, 4], [0, 1, 2, 3]])
"""The labels of three sequences, with a vocabulary of five tokens; -100 at positions that are not supervised."""

_Value = Callable[..., Tensor]
"""A function that returns the loss for logits or hidden states ``(B, S, 5)``.

The argument ``rows`` selects sequences. ``margin`` is the number of padding positions on the left and on the right.
"""


def check_objective(objective: ForgetObjective) -> None:
    """Check an objective on a small batch, in float64.

    The fields must be consistent. The loss must be a finite scalar, also if an option has its lowest or highest value.
    The gradient must be finite, and 0 at unsupervised positions. Padding and the order of the sequences must not change
    the loss or the gradient. If a batch is split, the weighted mean of the losses of the two parts must equal the loss
    of the batch. For model outputs in bf16, the loss must be float32.

    Raises:
        AssertionError: a check failed; the message says which.
    """
    _check_fields(objective)
    drawn = torch.randn(*_LABELS.shape, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for options in option_values(objective.options):
        loss, gradient = _with_gradient(_value(objective, options), drawn)
        assert bool(loss.isfinite()), f"the loss is {float(loss)} with {options}; it must be finite"
        assert bool(gradient.isfinite().all()), f"the gradient is not finite with {options}"
    value = _value(objective, defaults(objective.options))
    loss, gradient = _with_gradient(value, drawn)
    assert not gradient[_LABELS == -100].any(), "the gradient must be 0 at positions without a label"
    assert gradient.any(), "the loss does not depend on the model's output"
    _check_batch(value, drawn)
    _check_parts(objective, value, drawn)
    rounded = drawn.bfloat16()
    coarse, exact = value(rounded), float(value(rounded.double()))
    assert coarse.dtype is torch.float32, f"outputs in bf16 must give a loss in float32, got {coarse.dtype}"
    assert math.isclose(float(coarse), exact, rel_tol=1e-4, abs_tol=1e-4), (
        f"the loss of bf16 outputs is {float(coarse):g}, expected {exact:g}"
    )


def _check_fields(objective: ForgetObjective) -> None:
    assert objective.formula, "the formula is empty"
    assert "\n" not in objective.formula + objective.citation, "formula and citation must be one line each"
    assert (objective.loss is None) != (objective.hidden_loss is None), (
        "an objective needs exactly one of 'loss' and 'hidden_loss'"
    )
    assert (objective.reference is Reference.HIDDEN) == (objective.loss is None), (
        "'hidden_loss' requires Reference.HIDDEN, and 'loss' requires a reference other than HIDDEN"
    )
    assert objective.weighting in WEIGHTINGS, f"unknown weighting '{objective.weighting}'"
    check_options(objective.options)


def _check_batch(value: _Value, drawn: Tensor) -> None:
    loss, gradient = _with_gradient(value, drawn)
    padded, widened = _with_gradient(value, pad(drawn, (0, 0, 2, 3), value=7.0), margin=(2, 3))
    assert _close(padded, loss), f"padding changes the loss from {float(loss):g} to {float(padded):g}"
    assert _close(widened[:, 2:-3], gradient), "padding changes the gradient"
    rows = [2, 0, 1]
    turned, permuted = _with_gradient(value, drawn[rows], rows=rows)
    assert _close(turned, loss), (
        f"the order of the sequences changes the loss from {float(loss):g} to {float(turned):g}"
    )
    assert _close(permuted, gradient[rows]), "the order of the sequences changes the gradients"


def _check_parts(objective: ForgetObjective, value: _Value, drawn: Tensor) -> None:
    supervised = (_LABELS != -100).sum(dim=1)
    # Hidden states have no labels, so the unsupervised positions are their padding.
    units = torch.ones(len(_LABELS)) if objective.mean_over is MeanOver.SEQUENCES else supervised
    shares = (units / units.sum()).double().tolist()
    summed = sum(sum(shares[row] for row in rows) * value(drawn[rows], rows=rows) for rows in ([0], [2, 1]))
    whole = value(drawn)
    assert torch.allclose(torch.as_tensor(summed), whole, rtol=1e-6), (
        f"if the batch is split, the loss is {float(summed):g} instead of {float(whole):g}; the loss must be a mean "
        f"over {objective.mean_over}"
    )


def _value(objective: ForgetObjective, options: Mapping[str, float]) -> _Value:
    needs, pair = objective.reference, objective.reference is Reference.PAIR_NLL
    fixed = torch.Generator().manual_seed(1)
    target_logits = torch.randn(*_LABELS.shape, 5, generator=fixed, dtype=torch.float64)
    target_nll = torch.tensor([[4.0, 6.5, 9.0], [8.0, 7.0, 11.0]], dtype=torch.float64)

    def value(x: Tensor, *, rows: Sequence[int] = (0, 1, 2), margin: tuple[int, int] = (0, 0)) -> Tensor:
        chosen = list(rows)
        labels = pad(_LABELS[chosen], margin, value=-100)
        exact = x.to(torch.promote_types(x.dtype, torch.float32))
        answer_nll, refusal_nll = target_nll[:, chosen].to(exact.dtype)
        batch: HiddenBatch | ForgetBatch
        if objective.hidden_loss is not None:
            batch = HiddenBatch(x, labels != -100, torch.full((5,), 5**-0.5, dtype=exact.dtype))
        else:
            batch = ForgetBatch(
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
        tensors = [part for field in fields(batch) if (part := getattr(batch, field.name)) is not None]
        before, given = [part.detach().clone() for part in tensors], dict(options)
        compute: Callable[..., Tensor] | None = objective.hidden_loss or objective.loss
        assert compute is not None, "_check_fields checks this"
        found = compute(batch, given)
        assert found.shape == (), f"the loss must be a scalar, but has shape {tuple(found.shape)}"
        same = given == options and all(map(torch.equal, before, tensors))
        assert same, "the objective changes its batch or its options"
        return found

    return value


def _token_nll(logits: Tensor, labels: Tensor) -> Tensor:
    return cross_entropy(logits.transpose(1, 2), labels, reduction="none")


def _with_gradient(value: _Value, drawn: Tensor, **sequences: Any) -> tuple[Tensor, Tensor]:
    x = drawn.clone().requires_grad_()
    loss = value(x, **sequences)
    (gradient,) = torch.autograd.grad(loss, x)
    return loss.detach(), gradient


def _close(one: Tensor, other: Tensor) -> bool:
    return torch.allclose(one, other, rtol=1e-9, atol=1e-12)
