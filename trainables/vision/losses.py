"""Compute the cross-entropy of images, in the shape of token losses: each image is one supervised position."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainables.batches import sorted_batches
from trainables.predictions import Predictions, scoring
from trainables.vision.processing import ImageBatch, ImageProcessor, collate

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from transformers import PreTrainedModel

    from trainables.data.images import ImageSet


def predict(model: PreTrainedModel, batch: ImageBatch) -> Predictions:
    """Run one forward pass. Return logits ``(B, 1, K)``, labels and nll ``(B, 1)``; all positions are supervised."""
    import torch
    from torch.nn.functional import cross_entropy

    logits = model(pixel_values=batch.pixel_values).logits
    nll = cross_entropy(logits.float(), batch.labels[:, 0], reduction="none")
    return Predictions(
        logits=logits[:, None, :],
        labels=batch.labels,
        nll=nll[:, None],
        supervised=torch.ones_like(batch.labels, dtype=torch.bool),
    )


def score(
    model: PreTrainedModel,
    items: ImageSet,
    *,
    processor: ImageProcessor,
    batch_size: int,
    device: torch.device | str,
) -> tuple[Tensor, Tensor]:
    """Return ``-log p`` of each image's label, ``(n,)`` float64, and its most probable label, ``(n,)`` int64, in order.

    The losses are in nats. The model runs in eval mode. Both tensors are in host memory.
    """
    import torch

    nll, guesses = [], []
    with scoring(model):
        for indices in sorted_batches([1] * len(items), batch_size):
            predicted = predict(model, collate(items, indices, processor=processor, device=device))
            nll.append(predicted.nll[:, 0].double())
            guesses.append(predicted.logits[:, 0].argmax(dim=-1))
    return torch.cat(nll).cpu(), torch.cat(guesses).cpu()
