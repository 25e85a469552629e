"""The cross-entropy of images. An image counts as a sequence with one supervised position."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainables.predictions import Predictions
from trainables.vision.processing import ImageBatch

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def predict(model: PreTrainedModel, batch: ImageBatch) -> Predictions:
    """Return the predictions of one forward pass: logits ``(B, 1, K)``, labels ``(B, 1)`` and nll ``(B, 1)``."""
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
