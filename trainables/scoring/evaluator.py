"""Evaluate language models on fixed sets of questions and texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from trainables.data.examples import UnlearningData
from trainables.metrics.losses import ItemLosses
from trainables.metrics.registry import METRICS
from trainables.scoring.evaluation_sets import EvaluationSets
from trainables.scoring.measured import ModelEvaluator
from trainables.scoring.model_scores import ModelScores, RetainValues
from trainables.scoring.text_scorer import TextScorer
from trainables.template import QUESTION_ANSWER

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

MEMORISED_VERBMEM = 0.95
"""The data count as memorised if the mean ROUGE-L recall of the forget answers is above this value."""


class Evaluator(ModelEvaluator):
    """Evaluates language models. ``random_guess`` is ``ln|V|``, the logarithm of the size of the vocabulary."""

    def __init__(
        self,
        data: UnlearningData,
        tokenizer: PreTrainedTokenizerBase,
        *,
        vocabulary_size: int,
        template: str = QUESTION_ANSWER,
        **sizes: Any,
    ) -> None:
        """``sizes`` are ``max_length``, ``batch_size`` and ``device`` of :class:`TextScorer`."""
        super().__init__(data, classes=vocabulary_size)
        self._sets = EvaluationSets(data, TextScorer(tokenizer=tokenizer, template=template, **sizes))

    def scores(
        self,
        model: PreTrainedModel,
        *,
        retain: RetainValues | None = None,
        known: Mapping[str, ItemLosses] | None = None,
    ) -> ModelScores:
        return ModelScores(model, self._sets, retain=retain, known=known)

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
        return self.scores(model).reference(key=key, path=path, min_k=METRICS["mia_min_k"].measure)
