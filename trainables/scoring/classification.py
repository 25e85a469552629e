"""The metrics of an image classifier: losses after every epoch, accuracies at the end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainables.data.images import ImageData, ImageSet
from trainables.metrics.registry import ACCURACIES
from trainables.scoring.evaluation_sets import metrics_of
from trainables.scoring.measured import ItemLog, Measured, loss_columns
from trainables.vision.losses import score
from trainables.vision.processing import ImageProcessor

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

    from trainables.scoring.model_scores import RetainValues


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
        self._sets = dict(zip(ACCURACIES, (data.forget_eval, data.retain_eval, data.holdout), strict=True))
        self._last: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        self._processor = processor
        self._batch_size = batch_size
        self._device = device

    def losses(self, model: PreTrainedModel) -> dict[str, float]:
        """Mean cross-entropy on the whole forget set and on the retain sample, and the capped forget loss."""
        self._last = {name: self._score(model, self._sets[name]) for name in ("forget_accuracy", "retain_accuracy")}
        forget, retain = ((nll.tolist(), [1] * len(nll)) for nll, _ in self._last.values())
        return loss_columns(forget, retain, self.random_guess)

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

        ``unchanged``: :meth:`losses` was asked about this model last and it is the same still; what it has scored is
        not scored again.

        Raises:
            MetricError: one of them is not measured for image classifiers, or there are no held-out images.
        """
        known = self._last if unchanged else {}
        metrics: dict[str, float] = {}
        items: ItemLog = {}
        for name in metrics_of(names, self._data):
            nll, guesses = known[name] if name in known else self._score(model, self._sets[name])
            labels = self._sets[name].labels
            metrics[name] = float((guesses.numpy() == labels).mean())
            columns = {"loss": nll.tolist(), "predicted": guesses.tolist(), "label": labels.tolist()}
            items[name.removesuffix("_accuracy")] = {
                column: {str(place): value for place, value in enumerate(values)} for column, values in columns.items()
            }
        return Measured(metrics, items, 0.0)

    def reference(self, model: PreTrainedModel, *, key: str, path: str) -> RetainValues:
        """Never asked for: no metric of images compares with a retain model."""
        raise NotImplementedError

    def _score(self, model: PreTrainedModel, items: ImageSet) -> tuple[torch.Tensor, torch.Tensor]:
        return score(model, items, processor=self._processor, batch_size=self._batch_size, device=self._device)
