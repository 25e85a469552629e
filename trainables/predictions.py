"""The predictions of a model on a batch, in one format for all modalities."""

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
    """A model's predictions on a batch.

    The first column is the first position that predicts an answer token in any row; earlier positions are omitted.

    Attributes:
        logits: ``(B, S, V)`` the logits of the next token, or of the image's label.
        labels: ``(B, S)`` int64, the true token or label; -100 at positions that are not supervised.
        nll: ``(B, S)`` float32, ``-log p`` of each label in nats; 0 at positions that are not supervised.
        supervised: ``(B, S)`` bool, whether the position is part of losses.
    """

    logits: Tensor
    labels: Tensor
    nll: Tensor
    supervised: Tensor


def mean_loss(nll: Tensor, supervised: Tensor) -> Tensor:
    """Return the mean loss of all supervised tokens of the batch, in nats. ``nll`` must be 0 for all other tokens."""
    return nll.sum() / supervised.sum()


@contextmanager
def scoring(model: PreTrainedModel) -> Iterator[None]:
    """Run the block with the model in eval mode and without gradients. Restore the model's mode afterwards."""
    import torch

    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(was_training)
