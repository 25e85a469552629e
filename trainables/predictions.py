"""The predictions of a model on a batch, and its losses on a set of items, in one format for all modalities."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from trainables.batches import sorted_batches
from trainables.metrics.losses import ItemLosses

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from transformers import PreTrainedModel


@dataclass(frozen=True)  # without slots, because ``correct`` is cached
class Predictions:
    """A model's predictions on a batch of ``B`` items, at ``S`` positions, for ``V`` classes.

    Attributes:
        logits: ``(B, S, V)``, the logits of the next token or of the image's label. Position 0 is the first position
            that is supervised in any item.
        labels: ``(B, S)`` int64, the true token or label; -100 at positions that are not supervised.
        nll: ``(B, S)`` float32, ``-log p`` of each label in nats; 0 at positions that are not supervised.
        supervised: ``(B, S)`` bool, whether the loss includes the position.
    """

    logits: Tensor
    labels: Tensor
    nll: Tensor
    supervised: Tensor

    @cached_property
    def correct(self) -> Tensor:
        """``(B, S)`` bool, whether the label has the largest logit. Undefined at positions that are not supervised."""
        if self.logits.shape[1] == 1:
            return self.logits.argmax(dim=-1) == self.labels
        # On a CPU, argmax over many positions takes as long as the cross-entropy, and amax a twentieth as long.
        label_logits = self.logits.gather(2, self.labels.clamp(min=0)[:, :, None])[:, :, 0]
        return label_logits >= self.logits.amax(dim=-1)


def mean_loss(nll: Tensor, supervised: Tensor) -> Tensor:
    """Return the mean of ``nll`` over the supervised positions, in nats. At other positions, ``nll`` must be 0."""
    return nll.sum() / supervised.sum()


@contextmanager
def evaluation_mode(model: PreTrainedModel) -> Iterator[None]:
    """Run the block with the model in eval mode and without gradients. Restore the mode afterwards."""
    import torch

    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(was_training)


def item_losses(
    model: PreTrainedModel,
    lengths: Sequence[int],
    predict: Callable[[list[int]], Predictions],
    *,
    batch_size: int,
    observe: Callable[[list[int], Predictions], None] = lambda indices, predictions: None,
) -> ItemLosses:
    """Return the losses of each item, in the order of ``lengths``. The model runs in eval mode.

    Args:
        lengths: the length of each item. Items of similar length share a batch.
        predict: function from the indices of items to the predictions for these items.
        observe: function that is called with the indices of the items and the predictions of each batch.
    """
    import numpy as np
    import torch

    results = np.zeros((5, len(lengths)))
    with evaluation_mode(model):
        for indices in sorted_batches(lengths, batch_size):
            predictions = predict(indices)
            observe(indices, predictions)
            nll = predictions.nll.double()
            capped = nll.clamp(max=math.log(predictions.logits.shape[-1]))
            counts = predictions.supervised.sum(dim=1)
            agreed, first_wrong = _agreement(predictions)
            batch_results = torch.stack([nll.sum(dim=1), capped.sum(dim=1), counts, agreed, first_wrong])
            results[:, indices] = batch_results.cpu().numpy()
    return ItemLosses(
        totals=results[0],
        capped=results[1],
        counts=results[2],
        agreed=results[3].astype(int),
        first_wrong=results[4].astype(int),
    )


def _agreement(predictions: Predictions) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ``agreed`` and ``first_wrong`` of :class:`~trainables.metrics.losses.ItemLosses`, both ``(B,)``."""
    import torch

    logits = predictions.logits
    correct_or_ignored = predictions.correct | ~predictions.supervised
    in_prefix = correct_or_ignored.long().cumprod(dim=1).bool()
    first_error = (~correct_or_ignored).long().argmax(dim=1)
    predicted_labels = logits[torch.arange(len(first_error), device=logits.device), first_error].argmax(dim=-1)
    first_wrong = torch.where(in_prefix[:, -1], -1, predicted_labels)
    return (in_prefix & predictions.supervised).sum(dim=1), first_wrong
