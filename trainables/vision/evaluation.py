"""The metrics of an image classifier: losses after every epoch, accuracies at the end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainables.data.images import ImageData, ImageSet
from trainables.evaluation_sets import metrics_of
from trainables.measured import ItemLog, Measured
from trainables.metrics.registry import ACCURACIES
from trainables.vision.losses import score
from trainables.vision.processing import ImageProcessor

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

    from trainables.model_scores import RetainValues


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
        return dict(self.measure(model).metrics)

    def measure(
        self,
        model: PreTrainedModel,
        names: Sequence[str] = (),
        *,
        retain: RetainValues | None = None,
        unchanged: bool = False,
    ) -> Measured:
        """The metrics called ``names`` (none: all accuracies), with each image's loss, label and most probable label.

        Raises:
            MetricError: one of them is not measured for image classifiers, or there are no held-out images.
        """
        data = self._data
        sets = dict(zip(ACCURACIES, (data.forget_eval, data.retain_eval, data.holdout), strict=True))
        metrics: dict[str, float] = {}
        items: ItemLog = {}
        for name in metrics_of(names, data):
            nll, guesses = self._score(model, sets[name])
            labels = sets[name].labels
            metrics[name] = float((guesses.numpy() == labels).mean())
            columns = {"loss": nll.tolist(), "predicted": guesses.tolist(), "label": labels.tolist()}
            items[name.removesuffix("_accuracy")] = {
                column: {str(place): value for place, value in enumerate(values)} for column, values in columns.items()
            }
        return Measured(metrics, items, 0.0)

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
