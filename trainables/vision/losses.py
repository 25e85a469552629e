"""Compute the cross-entropy of images. An image counts as a sequence with one supervised position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainables.metrics.losses import ItemLosses
from trainables.predictions import Predictions, item_losses
from trainables.vision.processing import ImageBatch, ImageProcessor, collate

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

    from trainables.data.images import ImageSet


def predict(model: PreTrainedModel, batch: ImageBatch) -> Predictions:
    """Run one forward pass and return the predictions: logits ``(B, 1, K)``, and labels and nll ``(B, 1)``."""
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


def image_losses(
    model: PreTrainedModel,
    items: ImageSet,
    *,
    processor: ImageProcessor,
    batch_size: int,
    device: torch.device | str,
) -> ItemLosses:
    """Compute the loss of each image, in order, and whether the model predicts its label."""

    def predicted(indices: Sequence[int]) -> Predictions:
        return predict(model, collate(items, indices, processor=processor, device=device))

    return item_losses(model, [1] * len(items), predicted, batch_size=batch_size)
