"""Evaluate image classifiers: their losses and accuracies."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from trainables.data.images import ImageData, ImageSet
from trainables.metrics.item_mean import ItemMean
from trainables.metrics.losses import ItemLosses, agreement
from trainables.scoring.base import ItemLog, LazyDict, ModelEvaluator, RetainValues, Scores, TargetModel
from trainables.scoring.item_log import by_index

if TYPE_CHECKING:
    from transformers import PreTrainedModel

MEMORISED_ACCURACY = 0.99
"""The data count as memorised if the accuracies on the forget set and on the retain sample exceed this value."""


class ImageScores(Scores):
    """The per-image values of one model for each evaluation set (forget, retain, test)."""

    def __init__(
        self,
        evaluator: ClassificationEvaluator,
        model: PreTrainedModel,
        retain: RetainValues | None = None,
        target: TargetModel | None = None,
    ) -> None:
        super().__init__(evaluator, model, retain, target)
        self._sets = evaluator.sets
        # The closure does not reference ``self``, because a reference cycle would keep the model in memory longer.
        self.images = LazyDict[str, ItemLosses](lambda set_name: evaluator.score(model, evaluator.sets[set_name]))

    def accuracy(self, set_name: str) -> ItemMean:
        return agreement(self.images[set_name])

    @property
    def forget_losses(self) -> ItemLosses:
        return self.images["forget"]

    @property
    def retain_losses(self) -> ItemLosses:
        return self.images["retain"]

    def items(self) -> ItemLog:
        """Return the loss, the most probable label and the true label of each scored image."""
        log: ItemLog = {}
        for set_name, losses in self.images.items():
            labels = self._sets[set_name].labels
            columns = {
                "loss": losses.totals,
                "predicted": np.where(losses.first_wrong < 0, labels, losses.first_wrong),
                "label": labels,
            }
            log[set_name] = {name: by_index(values) for name, values in columns.items()}
        return log


class ClassificationEvaluator(ModelEvaluator):
    """Evaluates image classifiers. ``score(model, images)`` returns the losses of a model on a set of images."""

    def __init__(
        self, data: ImageData, score: Callable[[PreTrainedModel, ImageSet], ItemLosses], *, classes: int
    ) -> None:
        super().__init__(data, classes=classes)
        self.sets = {"forget": data.forget_eval, "retain": data.retain_eval, "test": data.holdout}
        self.score = score

    def scores(
        self, model: PreTrainedModel, *, retain: RetainValues | None = None, target: TargetModel | None = None
    ) -> ImageScores:
        return ImageScores(self, model, retain, target)

    def reference(self, model: PreTrainedModel, *, key: str, path: str) -> RetainValues:
        accuracies = self.scores(model).measure(("accuracy",)).metrics
        return RetainValues(
            key=key,
            path=path,
            log_truth_ratios=(),
            forget_log_probs=(),
            holdout_log_probs=(),
            min_k_auc=None,
            metrics=accuracies,
        )

    def memorised(self, model: PreTrainedModel) -> bool:
        scores = self.scores(model)
        return min(scores.accuracy("forget"), scores.accuracy("retain")) > MEMORISED_ACCURACY
