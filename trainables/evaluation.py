"""The metrics of a model on the fixed evaluation sets: losses after every epoch, the costly ones at the end."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trainables.data.examples import UnlearningData
from trainables.evaluation_sets import ChoiceSet, QuestionSet, choice_sets, metrics_of, question_sets
from trainables.item_log import ItemLog, item_log
from trainables.losses import sequence_nll
from trainables.metrics.registry import DEFAULT_SET, METRICS
from trainables.model_scores import ModelScores, RetainValues
from trainables.tokens import Tokens

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

LOSSES = ("forget_loss", "retain_loss", "forget_loss_capped")
FINAL_METRICS = DEFAULT_SET
FURTHER_METRICS = tuple(name for name in METRICS if name not in (*LOSSES, *FINAL_METRICS))
"""The columns of metrics that are measured only when they are asked for."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The chosen metrics of a model, the per-item values behind them, and how long generation took (seconds)."""

    metrics: Mapping[str, float]
    items: ItemLog
    generation_seconds: float


class Evaluator:
    """Scores models on one unlearning problem; the sets are tokenised once, here.

    ``random_guess`` is ``ln|V|``, the loss of a uniform guess: the cap of ``forget_loss_capped``, since a loss of
    40 or 500 is not "more forgotten" than a guess.
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
    ) -> None:
        self.random_guess = math.log(vocabulary_size)
        self._tokenizer = tokenizer
        self._device = device
        self._batch_size = batch_size
        self._data = data
        self._max_length = max_length
        core = replace(data, extra_eval={}, holdout=())
        self._questions: dict[str, QuestionSet] = dict(question_sets(core, tokenizer, max_length))
        self._choices: dict[str, ChoiceSet] = dict(choice_sets(core, tokenizer, max_length))
        self._whole = False

    def losses(self, model: PreTrainedModel) -> dict[str, float]:
        """Token-mean cross-entropy on the whole forget set and on the retain sample, and the capped forget loss."""
        forget = self._mean_loss(model, self._questions["forget"].sequences)
        retain = self._mean_loss(model, self._questions["retain"].sequences)
        capped = min(forget, self.random_guess) if math.isfinite(forget) else forget
        return {"forget_loss": forget, "retain_loss": retain, "forget_loss_capped": capped}

    def final(self, model: PreTrainedModel) -> dict[str, float]:
        """The default metrics of a finished model; docs/metrics.md has their formulas.

        ``verbmem`` and ``utility``: mean ROUGE-L recall of greedy answers on the forget set and on the retain sample.
        ``truth_ratio``: ``mean max(0, 1 - truth ratio)`` on the retain sample, higher is better (TOFU);
        ``forget_truth_ratio``: ``mean min(s, 1/s)`` on the forget set. A truth ratio is left out where the data have
        no perturbed answers.
        """
        return self.scores(model).measure(metrics_of((), self._data))

    def measure(
        self, model: PreTrainedModel, names: Sequence[str] = (), *, retain: RetainValues | None = None
    ) -> Measured:
        """The metrics called ``names`` (none: the default ones), with their items.

        Raises:
            MetricError: the data, or the want of a retain model, cannot give one of them.
        """
        chosen = metrics_of(names, self._data, retain_model=retain is not None)
        if not set(chosen) <= set(FINAL_METRICS):
            self._tokenise_the_rest()
        scores = self.scores(model, retain=retain)
        metrics = scores.measure(chosen)
        for part in ("forget", "retain"):
            scores.answers(part)
        return Measured(metrics, item_log(scores), scores.generation_seconds)

    def verbmem(self, model: PreTrainedModel) -> float:
        """Mean ROUGE-L recall of greedy answers on the forget set."""
        return self.scores(model).measure(("verbmem",))["verbmem"]

    def reference(self, model: PreTrainedModel, *, key: str, path: str) -> RetainValues:
        """What metrics need of ``model`` as the one trained without the forget set."""
        self._tokenise_the_rest()
        return self.scores(model).reference(key=key, path=path)

    def scores(self, model: PreTrainedModel, *, retain: RetainValues | None = None) -> ModelScores:
        """The model's per-item values on forget set and retain sample, computed as they are asked for."""
        return ModelScores(
            model,
            self._tokenizer,
            questions=self._questions,
            choices=self._choices,
            retain=retain,
            batch_size=self._batch_size,
            device=self._device,
        )

    def _tokenise_the_rest(self) -> None:
        """Holdout and further sets, which the default metrics never look at."""
        if not self._whole:
            rest = replace(self._data, forget=(), retain_eval=(), forget_eval=())
            self._questions |= question_sets(rest, self._tokenizer, self._max_length)
            self._choices |= choice_sets(rest, self._tokenizer, self._max_length)
            self._whole = True

    def _mean_loss(self, model: PreTrainedModel, sequences: Sequence[Tokens]) -> float:
        totals, counts = self._nll(model, sequences)
        return math.fsum(totals) / sum(counts) if all(map(math.isfinite, totals)) else math.nan

    def _nll(self, model: PreTrainedModel, sequences: Sequence[Tokens]) -> tuple[list[float], list[int]]:
        return sequence_nll(
            model,
            sequences,
            pad_id=int(self._tokenizer.pad_token_id),
            batch_size=self._batch_size,
            device=self._device,
        )
