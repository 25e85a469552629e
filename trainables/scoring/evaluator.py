"""Evaluate language models on fixed sets of questions and texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainables.data.examples import UnlearningData
from trainables.metrics.membership import text_loss_scores
from trainables.metrics.registry import METRICS
from trainables.scoring.evaluation_sets import EvaluationSets
from trainables.scoring.measured import ModelEvaluator
from trainables.scoring.model_scores import ModelScores, RetainValues
from trainables.text.scorer import TextScorer

if TYPE_CHECKING:
    from transformers import PreTrainedModel

MEMORISED_VERBMEM = 0.95
"""The data count as memorised if the mean ROUGE-L recall of the forget answers is above this value."""


class Evaluator(ModelEvaluator):
    """Evaluates language models. ``random_guess`` is ``ln|V|``, the logarithm of the size of the vocabulary."""

    def __init__(self, data: UnlearningData, scorer: TextScorer, *, vocabulary_size: int) -> None:
        super().__init__(data, classes=vocabulary_size)
        self._sets = EvaluationSets(data, scorer)

    def scores(self, model: PreTrainedModel, *, retain: RetainValues | None = None) -> ModelScores:
        return ModelScores(model, self._sets, data=self._data, random_guess=self.random_guess, retain=retain)

    def verbmem(self, model: PreTrainedModel) -> float:
        """Return the mean ROUGE-L recall of greedy answers on the forget set, or on the data's own verbmem prompts.

        The result shows whether the model has learned the forget set itself, even if metrics measure forgetting on
        other items.
        """
        return float(self.scores(model).recalls("trained", prompts="verbmem").mean())

    def memorised(self, model: PreTrainedModel) -> bool:
        """Return whether the model generates the forget answers word for word."""
        return self.verbmem(model) > MEMORISED_VERBMEM

    def reference(self, model: PreTrainedModel, *, key: str, path: str) -> RetainValues:
        scores, sets = self.scores(model), self._sets
        ratios = tuple(scores.choices["forget"].log_truth_ratios.tolist()) if sets.has_choices("forget") else ()
        if not sets.has("holdout"):
            return RetainValues(key, path, ratios, (), (), None)
        inside, outside = (tuple(text_loss_scores(scores, part).tolist()) for part in ("forget", "holdout"))
        return RetainValues(key, path, ratios, inside, outside, METRICS["mia_min_k"].measure(scores))
