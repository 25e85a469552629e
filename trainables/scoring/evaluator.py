"""Evaluate a language model on fixed sets: its losses after every epoch, and expensive metrics at the end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainables.data.examples import UnlearningData
from trainables.metrics.losses import ItemLosses, SetLosses, agreement, standard_error
from trainables.metrics.registry import LOSS_METRICS, METRICS
from trainables.scoring.chosen_metrics import chosen_metrics
from trainables.scoring.evaluation_sets import EvaluationSets
from trainables.scoring.item_log import item_log
from trainables.scoring.measured import Measured, values_of
from trainables.scoring.model_scores import ModelScores, RetainValues
from trainables.scoring.text_scorer import TextScorer
from trainables.template import QUESTION_ANSWER

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


class Evaluator:
    """Evaluates language models on one unlearning task.

    ``random_guess`` is ``ln|V|``, the loss of a uniform guess and the cap of ``forget_loss_capped``. ``retain_loss_se``
    is the standard error of the last retain loss (nats per token). ``retain_agreement`` is the mean share of a retain
    answer that the model would generate before its first wrong token.
    """

    def __init__(
        self,
        data: UnlearningData,
        tokenizer: PreTrainedTokenizerBase,
        *,
        vocabulary_size: int,
        max_length: int,
        batch_size: int,
        device: torch.device | str,
        template: str = QUESTION_ANSWER,
    ) -> None:
        self.random_guess = math.log(vocabulary_size)
        self._data = data
        self._scorer = TextScorer(
            tokenizer=tokenizer, max_length=max_length, batch_size=batch_size, device=device, template=template
        )
        self._sets = EvaluationSets(data, self._scorer)
        self._last: dict[str, ItemLosses] = {}
        self.retain_loss_se = self.retain_agreement = math.nan

    def losses(self, model: PreTrainedModel) -> dict[str, float]:
        """Return the mean cross-entropy per token on the forget set (with and without a cap per token) and on the
        retain sample."""
        scores = self.scores(model)
        self._last = {part: scores.answers[part] for part in ("trained", "retain_losses")}
        for name, same in (("forget", "trained"), ("retain", "retain_losses")):
            if self._sets.questions[name] is self._sets.questions[same]:
                self._last[name] = self._last[same]
        retain = self._last["retain_losses"]
        self.retain_loss_se, self.retain_agreement = standard_error(retain), agreement(retain)
        return values_of(LOSS_METRICS, SetLosses(self._last["trained"], retain, self.random_guess))

    def measure(
        self,
        model: PreTrainedModel,
        names: Sequence[str] = (),
        *,
        retain: RetainValues | None = None,
        unchanged: bool = False,
    ) -> Measured:
        """Return the metrics ``names`` (the default set if empty), and the per-item values from which they result.

        If ``unchanged``, the model has not changed since the last call of :meth:`losses`, and its scores are reused.
        Raises MetricError if the data do not allow one of the metrics, or if a needed retain model is missing.
        """
        chosen = chosen_metrics(names, self._data, retain_model=retain is not None)
        scores = ModelScores(model, self._sets, self._scorer, retain=retain, known=self._last if unchanged else None)
        metrics = values_of(chosen, scores)
        return Measured(metrics, item_log(scores), scores.generation_seconds)

    def verbmem(self, model: PreTrainedModel) -> float:
        """Return the mean ROUGE-L recall of greedy answers on the forget set, or on the data's own verbmem prompts.

        The result shows whether the model has learned the forget set itself, even if metrics measure forgetting on
        other items.
        """
        return float(self.scores(model).recalls("trained", prompts="verbmem").mean())

    def reference(self, model: PreTrainedModel, *, key: str, path: str) -> RetainValues:
        """Return the values of the retain model ``model`` with which metrics compare other models."""
        return self.scores(model).reference(key=key, path=path, min_k=METRICS["mia_min_k"].measure)

    def scores(self, model: PreTrainedModel) -> ModelScores:
        """Return the model's per-item values. Each value is computed when it is first used."""
        return ModelScores(model, self._sets, self._scorer)
