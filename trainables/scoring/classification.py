"""Evaluate image classifiers: their losses and accuracies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from trainables.data.images import ImageData, ImageSet
from trainables.metrics.losses import ItemLosses, SetLosses, agreement
from trainables.scoring.base import ItemLog, LazyDict, ModelEvaluator, RetainValues, Scores
from trainables.scoring.item_log import by_index

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from trainables.data import TaskData

MEMORISED_ACCURACY = 0.99
"""The data count as memorised if the accuracies on the forget set and on the retain sample exceed this value."""


class ImageScores(Scores):
    """The per-image values of one model for each evaluation set (forget, retain, test)."""

    def __init__(
        self,
        sets: Mapping[str, ImageSet],
        score: Callable[[ImageSet], ItemLosses],
        *,
        data: TaskData,
        random_guess: float,
        retain: RetainValues | None,
    ) -> None:
        super().__init__(data, random_guess=random_guess, retain=retain)
        self.images = LazyDict[str, ItemLosses](lambda part: score(sets[part]))
        self._sets = sets

    def accuracy(self, part: str) -> float:
        """Return the accuracy on an evaluation set."""
        return agreement(self.images[part])

    def set_losses(self) -> SetLosses:
        return SetLosses(self.images["forget"], self.images["retain"], self._random_guess)

    def items(self) -> ItemLog:
        """Return the loss, the most probable label and the true label of each scored image."""
        log: ItemLog = {}
        for part, losses in self.images.items():
            labels, instead = self._sets[part].labels, losses.instead
            columns = {"loss": losses.totals, "predicted": np.where(instead < 0, labels, instead), "label": labels}
            log[part] = {name: by_index(values) for name, values in columns.items()}
        return log


class ClassificationEvaluator(ModelEvaluator):
    """Evaluates image classifiers."""

    def __init__(
        self, data: ImageData, score: Callable[[PreTrainedModel, ImageSet], ItemLosses], *, classes: int
    ) -> None:
        """``score`` returns the losses of a model on a set of images."""
        super().__init__(data, classes=classes)
        self._sets = {"forget": data.forget_eval, "retain": data.retain_eval, "test": data.holdout}
        self._score = score

    def scores(self, model: PreTrainedModel, *, retain: RetainValues | None = None) -> ImageScores:
        score = partial(self._score, model)
        return ImageScores(self._sets, score, data=self._data, random_guess=self.random_guess, retain=retain)

    def memorised(self, model: PreTrainedModel) -> bool:
        scores = self.scores(model)
        return min(scores.accuracy("forget"), scores.accuracy("retain")) > MEMORISED_ACCURACY
