"""The metrics of an image classifier: losses after every epoch, accuracies at the end."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trainables.data.images import ImageData, ImageSet
from trainables.vision.losses import score
from trainables.vision.processing import ImageProcessor

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

ACCURACIES = ("forget_accuracy", "retain_accuracy", "test_accuracy")
"""On the forget set, on the sample of the retain set, and on held-out images of the retained classes."""


class ClassificationEvaluator:
    """Scores classifiers on one unlearning problem; ``random_guess`` is ``ln K``, the loss of a uniform guess."""

    def __init__(
        self,
        data: ImageData,
        processor: ImageProcessor,
        *,
        classes: int,
        batch_size: int,
        device: torch.device | str,
    ) -> None:
        self.random_guess = math.log(classes)
        self._data = data
        self._processor = processor
        self._batch_size = batch_size
        self._device = device

    def losses(self, model: PreTrainedModel) -> dict[str, float]:
        """Mean cross-entropy on the whole forget set and on the retain sample, and the capped forget loss."""
        forget, retain = (self._loss(model, part) for part in (self._data.forget_eval, self._data.retain_eval))
        capped = min(forget, self.random_guess) if math.isfinite(forget) else forget
        return {"forget_loss": forget, "retain_loss": retain, "forget_loss_capped": capped}

    def final(self, model: PreTrainedModel) -> dict[str, float]:
        """Accuracies on the forget set, the retain sample, and held-out images of the retained classes if any."""
        sets = (self._data.forget_eval, self._data.retain_eval, self._data.holdout)
        return {name: self.accuracy(model, part) for name, part in zip(ACCURACIES, sets, strict=True) if len(part)}

    def accuracy(self, model: PreTrainedModel, items: ImageSet) -> float:
        """The share of images whose most probable label is theirs."""
        _, guesses = self._score(model, items)
        return float((guesses.numpy() == items.labels).mean())

    def _loss(self, model: PreTrainedModel, items: ImageSet) -> float:
        nll, _ = self._score(model, items)
        values = nll.tolist()
        return math.fsum(values) / len(values) if all(map(math.isfinite, values)) else math.nan

    def _score(self, model: PreTrainedModel, items: ImageSet) -> tuple[torch.Tensor, torch.Tensor]:
        return score(model, items, processor=self._processor, batch_size=self._batch_size, device=self._device)
