"""Evaluate an image classifier: its losses after every epoch, and its accuracies at the end."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from trainables.data.images import ImageData, ImageSet
from trainables.metrics.losses import ItemLosses, SetLosses, standard_error
from trainables.metrics.registry import LOSS_METRICS
from trainables.scoring.chosen_metrics import chosen_metrics
from trainables.scoring.lazy_dict import LazyDict
from trainables.scoring.measured import ItemLog, Measured, values_of
from trainables.vision.losses import score
from trainables.vision.processing import ImageProcessor

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

    from trainables.scoring.model_scores import RetainValues

    Scored: TypeAlias = tuple[torch.Tensor, torch.Tensor]


class ImageScores:
    """The per-image values of one model, by evaluation set: forget, retain, test.

    ``images`` has, for each set, the losses of its images (nats) and their most probable labels, each ``(n,)``.
    """

    def __init__(self, sets: Mapping[str, ImageSet], score: Callable[[ImageSet], Scored], known: Mapping[str, Scored]):
        self.images = LazyDict(lambda part: known[part] if part in known else score(sets[part]))
        self._sets = sets

    def accuracy(self, part: str) -> float:
        """Return the share of images for which the most probable label is the true label."""
        return float((self.images[part][1].numpy() == self._sets[part].labels).mean())

    def items(self) -> ItemLog:
        """Return the loss, the most probable label and the true label of each image that was scored."""
        log: ItemLog = {}
        for part, (nll, guesses) in self.images.items():
            labels = self._sets[part].labels
            columns = {"loss": nll.tolist(), "predicted": guesses.tolist(), "label": labels.tolist()}
            log[part] = {
                name: {str(place): value for place, value in enumerate(values)} for name, values in columns.items()
            }
        return log


class ClassificationEvaluator:
    """Evaluates classifiers on one unlearning task. ``random_guess`` is ``ln K``, the loss of a uniform guess."""

    def __init__(
        self, data: ImageData, processor: ImageProcessor, *, classes: int, batch_size: int, device: torch.device | str
    ) -> None:
        self.random_guess = math.log(classes)
        self._data = data
        self._sets = {"forget": data.forget_eval, "retain": data.retain_eval, "test": data.holdout}
        self.retain_loss_se = self.retain_agreement = math.nan
        self._last: dict[str, Scored] = {}
        self._score = partial(score, processor=processor, batch_size=batch_size, device=device)

    def losses(self, model: PreTrainedModel) -> dict[str, float]:
        """Return the mean cross-entropy on the forget set (with and without a cap per image) and the retain sample."""
        scores = self._scores(model, {})
        self._last = {part: scores.images[part] for part in ("forget", "retain")}
        forget, retain = (
            ItemLosses(nll.numpy(), nll.clamp(max=self.random_guess).numpy(), np.ones(len(nll)))
            for nll, _ in self._last.values()
        )
        self.retain_loss_se, self.retain_agreement = standard_error(retain), scores.accuracy("retain")
        return values_of(LOSS_METRICS, SetLosses(forget, retain, self.random_guess))

    def measure(
        self,
        model: PreTrainedModel,
        names: Sequence[str] = (),
        *,
        retain: RetainValues | None = None,
        unchanged: bool = False,
    ) -> Measured:
        """Return the metrics with these ``names`` (all accuracies if empty), and the values of each image.

        If ``unchanged``, the model has not changed since the last call of :meth:`losses`, and its scores are reused.
        Raises MetricError if a metric does not apply to images, or needs held-out images that the data do not have.
        """
        scores = self._scores(model, self._last if unchanged else {})
        metrics = values_of(chosen_metrics(names, self._data), scores)
        return Measured(metrics, scores.items(), 0.0)

    def reference(self, model: PreTrainedModel, *, key: str, path: str) -> RetainValues:
        """Raise NotImplementedError: no metric of images needs a retain model."""
        raise NotImplementedError

    def _scores(self, model: PreTrainedModel, known: Mapping[str, Scored]) -> ImageScores:
        return ImageScores(self._sets, partial(self._score, model), known)
