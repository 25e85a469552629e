"""What a model predicts on a batch, of whatever kind: the one loss all objectives and evaluations start from."""

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
    """What a model predicts on a batch, from the first position that predicts an answer token of any row.

    Attributes:
        logits: ``(B, S, V)``.
        labels: ``(B, S)`` int64, -100 where not supervised.
        nll: ``(B, S)`` float32, ``-log p`` of each label in nats, 0 where not supervised.
        supervised: ``(B, S)`` bool.
    """

    logits: Tensor
    labels: Tensor
    nll: Tensor
    supervised: Tensor


def mean_loss(nll: Tensor, supervised: Tensor) -> Tensor:
    """Mean over all supervised tokens of the batch (nats per token); ``nll`` is 0 elsewhere."""
    return nll.sum() / supervised.sum()


@contextmanager
def scoring(model: PreTrainedModel) -> Iterator[None]:
    """In eval mode and without gradients; afterwards the model is in the mode it was in."""
    import torch

    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(was_training)
