"""The predictions of any kind of model on a batch, from which all objectives and evaluations start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel


@dataclass(frozen=True, slots=True)
class Predictions:
    """A model's predictions on a batch, from the first position that predicts an answer token of any row.

    Attributes:
        logits: ``(B, S, V)``.
        labels: ``(B, S)`` int64, -100 if not supervised.
        nll: ``(B, S)`` float32, ``-log p`` of each label in nats, 0 if not supervised.
        supervised: ``(B, S)`` bool.
    """

    logits: Tensor
    labels: Tensor
    nll: Tensor
    supervised: Tensor


def mean_loss(nll: Tensor, supervised: Tensor) -> Tensor:
    """Return the mean over all supervised tokens of the batch (nats per token); ``nll`` is 0 elsewhere."""
    return nll.sum() / supervised.sum()


@contextmanager
def scoring(model: PreTrainedModel) -> Iterator[None]:
    """Switch to eval mode without gradients; restore the model's mode afterwards."""
    import torch

    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(was_training)
