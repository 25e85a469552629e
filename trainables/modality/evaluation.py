"""Evaluate the losses of a model on items of any modality."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trainables.metrics.losses import ItemLosses
from trainables.modality.modality import Modality
from trainables.predictions import Predictions, item_losses

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def evaluate_items(
    modality: Modality, model: PreTrainedModel, items: Any, *, processor: Any, batch_size: int
) -> ItemLosses:
    """Return the losses of each item, in the order of ``items``. The model runs in eval mode."""

    def predict(indices: Sequence[int]) -> Predictions:
        return modality.predict(model, modality.collate(items, indices, processor=processor, device=model.device))

    return item_losses(model, modality.lengths(items), predict, batch_size=batch_size)
