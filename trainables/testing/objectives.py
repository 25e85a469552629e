"""Check your own forget objective in a test: ``check_objective(MINE)``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, pad

from search_spaces.common.fields import defaults
from trainables.objectives import ForgetBatch, ForgetObjective, HiddenBatch, MeanOver, Reference
from trainables.testing.options import check_options, option_values
from trainables.weightings import WEIGHTINGS

_LABELS = torch.tensor([[1, 3, -100, -100], [-100, 2, 0, 4], [0, 1, 2, 3]])
"""The labels of three sequences, with a vocabulary of five tokens; -100 at positions that are not supervised."""

_LossFunction = Callable[..., Tensor]
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
    outputs = torch.randn(*_LABELS.shape, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for options in option_values(objective.options):
        loss, gradient = _with_gradient(_loss_function(objective, options), outputs)
        assert bool(loss.isfinite()), f"the loss is {float(loss)} with {options}; it must be finite"
        assert bool(gradient.isfinite().all()), f"the gradient is not finite with {options}"
    loss_of = _loss_function(objective, defaults(objective.options))
    loss, gradient = _with_gradient(loss_of, outputs)
    assert not gradient[_LABELS == -100].any(), "the gradient must be 0 at positions without a label"
    assert gradient.any(), "the loss does not depend on the model's output"
    _check_batch(loss_of, outputs)
    _check_parts(objective, loss_of, outputs)
    bf16_outputs = outputs.bfloat16()
    bf16_loss, expected = loss_of(bf16_outputs), float(loss_of(bf16_outputs.double()))
    assert bf16_loss.dtype is torch.float32, f"outputs in bf16 must give a loss in float32, got {bf16_loss.dtype}"
    assert math.isclose(float(bf16_loss), expected, rel_tol=1e-4, abs_tol=1e-4), (
        f"the loss of bf16 outputs is {float(bf16_loss):g}, expected {expected:g}"
    )


def _check_fields(objective: ForgetObjective) -> None:
    assert objective.formula, "the formula is empty"
    assert "\n" not in objective.formula + objective.citation, "formula and citation must be one line each"
    has_loss = objective.loss is not None
    has_hidden_loss = objective.hidden_loss is not None
    assert has_loss != has_hidden_loss, "an objective needs exactly one of 'loss' and 'hidden_loss'"
    assert has_hidden_loss == (objective.reference is Reference.HIDDEN), (
        "'hidden_loss' requires Reference.HIDDEN, and 'loss' requires a reference other than HIDDEN"
    )
    assert objective.weighting in WEIGHTINGS, f"unknown weighting '{objective.weighting}'"
    check_options(objective.options)


def _check_batch(loss_of: _LossFunction, outputs: Tensor) -> None:
    loss, gradient = _with_gradient(loss_of, outputs)
    padded_loss, padded_gradient = _with_gradient(loss_of, pad(outputs, (0, 0, 2, 3), value=7.0), margin=(2, 3))
    assert _close(padded_loss, loss), f"padding changes the loss from {float(loss):g} to {float(padded_loss):g}"
    assert _close(padded_gradient[:, 2:-3], gradient), "padding changes the gradient"
    rows = [2, 0, 1]
    permuted_loss, permuted_gradient = _with_gradient(loss_of, outputs[rows], rows=rows)
    assert _close(permuted_loss, loss), (
        f"the order of the sequences changes the loss from {float(loss):g} to {float(permuted_loss):g}"
    )
    assert _close(permuted_gradient, gradient[rows]), "the order of the sequences changes the gradients"


def _check_parts(objective: ForgetObjective, loss_of: _LossFunction, outputs: Tensor) -> None:
    supervised = (_LABELS != -100).sum(dim=1)
    # Hidden states have no labels, so the unsupervised positions are their padding.
    counts = torch.ones(len(_LABELS)) if objective.mean_over is MeanOver.SEQUENCES else supervised
    shares = (counts / counts.sum()).double().tolist()
    first_part = shares[0] * loss_of(outputs[[0]], rows=[0])
    second_part = (shares[2] + shares[1]) * loss_of(outputs[[2, 1]], rows=[2, 1])
    split_loss = first_part + second_part
    whole_loss = loss_of(outputs)
    assert torch.allclose(split_loss, whole_loss, rtol=1e-6), (
        f"if the batch is split, the loss is {float(split_loss):g} instead of {float(whole_loss):g}; the loss must be "
        f"a mean over {objective.mean_over}"
    )


def _loss_function(objective: ForgetObjective, options: Mapping[str, float]) -> _LossFunction:
    is_pair = objective.reference.has_preferred_answers
    needs_nll = is_pair or objective.reference is Reference.SEQUENCE_NLL
    rng = torch.Generator().manual_seed(1)
    target_logits = torch.randn(*_LABELS.shape, 5, generator=rng, dtype=torch.float64)
    target_nll = torch.tensor([[4.0, 6.5, 9.0], [8.0, 7.0, 11.0]], dtype=torch.float64)

    def loss_of(x: Tensor, *, rows: Sequence[int] = (0, 1, 2), margin: tuple[int, int] = (0, 0)) -> Tensor:
        indices = list(rows)
        labels = pad(_LABELS[indices], margin, value=-100)
        promoted = x.to(torch.promote_types(x.dtype, torch.float32))
        answer_nll, preferred_nll = target_nll[:, indices].to(promoted.dtype)
        batch: HiddenBatch | ForgetBatch
        if objective.hidden_loss is not None:
            direction = torch.full((5,), 5**-0.5, dtype=promoted.dtype)
            batch = HiddenBatch(hidden=x, present=labels != -100, direction=direction)
        else:
            padded_logits = pad(target_logits[indices], (0, 0, *margin)).to(x.dtype)
            batch = ForgetBatch(
                logits=x,
                labels=labels,
                token_nll=_token_nll(promoted, labels),
                supervised=labels != -100,
                reference_nll=answer_nll if needs_nll else None,
                # The likelihood of the refusals also depends on the model.
                preferred_nll=_token_nll(0.5 * promoted, labels).sum(dim=1) if is_pair else None,
                preferred_probability=_mean_probability(0.5 * promoted, labels) if is_pair else None,
                reference_preferred_nll=preferred_nll if is_pair else None,
                reference_logits=padded_logits if objective.reference is Reference.LOGITS else None,
                refusal_tokens=(labels + 2) % 5 if objective.reference is Reference.REFUSAL_TOKENS else None,
            )
        field_values = [getattr(batch, field.name) for field in fields(batch)]
        tensors = [value for value in field_values if value is not None]
        copies = [tensor.detach().clone() for tensor in tensors]
        options_copy = dict(options)
        compute: Callable[..., Tensor] | None = objective.hidden_loss or objective.loss
        assert compute is not None, "_check_fields checks this"
        result = compute(batch, options_copy)
        assert result.shape == (), f"the loss must be a scalar, but has shape {tuple(result.shape)}"
        is_unchanged = options_copy == options and all(map(torch.equal, copies, tensors))
        assert is_unchanged, "the objective changes its batch or its options"
        return result

    return loss_of


def _token_nll(logits: Tensor, labels: Tensor) -> Tensor:
    return cross_entropy(logits.transpose(1, 2), labels, reduction="none")


def _mean_probability(logits: Tensor, labels: Tensor) -> Tensor:
    supervised = labels != -100
    return ((-_token_nll(logits, labels)).exp() * supervised).sum(dim=1) / supervised.sum(dim=1)


def _with_gradient(loss_of: _LossFunction, outputs: Tensor, **sequences: Any) -> tuple[Tensor, Tensor]:
    x = outputs.clone().requires_grad_()
    loss = loss_of(x, **sequences)
    (gradient,) = torch.autograd.grad(loss, x)
    return loss.detach(), gradient


def _close(one: Tensor, other: Tensor) -> bool:
    return torch.allclose(one, other, rtol=1e-9, atol=1e-12)
