"""The metrics of a language model on the fixed sets: losses after every epoch, the costly ones at the end."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from trainables.data.examples import UnlearningData
from trainables.metrics.registry import DEFAULT_SET, LOSS_METRICS, METRICS
from trainables.scoring.evaluation_sets import (
    QuestionSet,
    choice_sets,
    core_sets,
    further_sets,
    metrics_of,
    question_sets,
)
from trainables.scoring.item_log import item_log
from trainables.scoring.measured import ItemLosses, Measured, loss_columns
from trainables.scoring.model_scores import ModelScores, RetainValues
from trainables.scoring.prompted import prompted_sets
from trainables.text.losses import sequence_nll
from trainables.text.tokens import QUESTION_ANSWER, pad_id

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from trainables.metrics.items import Array

LOSSES = (*LOSS_METRICS, "forget_loss_capped")
FINAL_METRICS = DEFAULT_SET
FURTHER_METRICS = tuple(name for name in METRICS if name not in (*LOSSES, *FINAL_METRICS))
"""The columns of metrics that are measured only when they are asked for."""


class Evaluator:
    """Scores models on one unlearning problem; the sets are tokenised once, here.

    ``random_guess`` is ``ln|V|``, the loss of a uniform guess: the cap of ``forget_loss_capped``.
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
        self._tokenizer = tokenizer
        self._device = device
        self._batch_size = batch_size
        self._data = data
        self._max_length = max_length
        self._template = template
        questions, choices = core_sets(data)
        self._questions = question_sets(questions, tokenizer, max_length, template)
        self._choices = choice_sets(choices, tokenizer, max_length, template)
        trained = self._questions["forget"]
        if not data.judged_as_trained:
            trained = QuestionSet(data.forget, tokenizer, max_length, template)
        self._loss_sets = {"forget": trained, "retain": self._questions["retain"]}
        self._prompted = prompted_sets(data, tokenizer)
        self._whole = False
        self._last_answers: dict[str, tuple[Array, Array]] = {}

    def losses(self, model: PreTrainedModel) -> dict[str, float]:
        """Token-mean cross-entropy on the whole forget set and on the retain sample, and the capped forget loss."""
        forget, retain = (self._item_losses(model, part) for part in ("forget", "retain"))
        return loss_columns(forget, retain, self.random_guess)

    def final(self, model: PreTrainedModel) -> dict[str, float]:
        """The default metrics of a finished model; docs/metrics.md has their formulas.

        ``verbmem`` and ``utility``: mean ROUGE-L recall of greedy answers on the forget set and on the retain sample,
        or where the data have prompts of their own (MUSE) or are plain texts, of greedy continuations; ``knowmem``:
        the same for questions about the forget set, only where the data have them apart (MUSE).
        ``truth_ratio``: ``mean max(0, 1 - truth ratio)`` on the retain sample, higher is better (TOFU);
        ``forget_truth_ratio``: ``mean min(s, 1/s)`` on the forget set. A truth ratio is left out where the data have
        no perturbed answers.
        """
        return self.scores(model).measure(metrics_of((), self._data))

    def measure(
        self,
        model: PreTrainedModel,
        names: Sequence[str] = (),
        *,
        retain: RetainValues | None = None,
        unchanged: bool = False,
    ) -> Measured:
        """The metrics called ``names`` (none: the default ones), with their items.

        ``unchanged``: :meth:`losses` was asked about this model last and it is the same still; its pass over the
        forget set and the retain sample is not made again.

        Raises:
            MetricError: the data, or the want of a retain model, cannot give one of them.
        """
        chosen = metrics_of(names, self._data, retain_model=retain is not None)
        if not set(chosen) <= set(FINAL_METRICS):
            self._tokenise_the_rest()
        scores = self.scores(model, retain=retain)
        if unchanged:
            known = {part for part, questions in self._loss_sets.items() if questions is self._questions[part]}
            scores.known_answers.update((part, self._last_answers[part]) for part in known)
        metrics = scores.measure(chosen)
        return Measured(metrics, item_log(scores), scores.generation_seconds)

    def verbmem(self, model: PreTrainedModel) -> float:
        """Mean ROUGE-L recall of greedy answers on the forget set, or of the continuations its data ask for.

        It says whether the model has learned F: it is of F itself, whatever forgetting is judged on.
        """
        return self._scores(model, self._questions | self._loss_sets).measure(("verbmem",))["verbmem"]

    def reference(self, model: PreTrainedModel, *, key: str, path: str) -> RetainValues:
        """What metrics need of ``model`` as the one trained without the forget set."""
        self._tokenise_the_rest()
        return self.scores(model).reference(key=key, path=path)

    def scores(self, model: PreTrainedModel, *, retain: RetainValues | None = None) -> ModelScores:
        """The model's per-item values, computed as they are asked for."""
        return self._scores(model, self._questions, retain)

    def _scores(
        self, model: PreTrainedModel, questions: Mapping[str, QuestionSet], retain: RetainValues | None = None
    ) -> ModelScores:
        return ModelScores(
            model,
            self._tokenizer,
            questions=questions,
            choices=self._choices,
            prompted=self._prompted,
            template=self._template,
            retain=retain,
            batch_size=self._batch_size,
            device=self._device,
        )

    def _tokenise_the_rest(self) -> None:
        """Holdout and further sets, which the default metrics never look at."""
        if not self._whole:
            questions, choices = further_sets(self._data)
            self._questions |= question_sets(questions, self._tokenizer, self._max_length, self._template)
            self._choices |= choice_sets(choices, self._tokenizer, self._max_length, self._template)
            self._whole = True

    def _item_losses(self, model: PreTrainedModel, part: str) -> ItemLosses:
        totals, counts = sequence_nll(
            model,
            self._loss_sets[part].sequences,
            pad_id=pad_id(self._tokenizer),
            batch_size=self._batch_size,
            device=self._device,
        )
        self._last_answers[part] = (np.asarray(totals, dtype=np.float64), np.asarray(counts, dtype=np.float64))
        return totals, counts
