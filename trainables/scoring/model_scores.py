"""The per-item values of one model on one task. Each value is computed once, when it is first used."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainables.metrics.losses import ItemLosses, SetLosses
from trainables.metrics.rouge import rouge_l_recall
from trainables.metrics.truth_ratio import log_truth_ratio, truth_ratio
from trainables.scoring.evaluation_sets import EvaluationSets, QuestionSet
from trainables.scoring.item_log import item_log
from trainables.scoring.measured import ItemLog, LazyDict, Scores
from trainables.text.token_scores import TokenScores

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from trainables.data import TaskData
    from trainables.metrics.items import Array


@dataclass(frozen=True, slots=True)
class RetainValues:
    """The values of a retain model (trained without the forget set). Metrics compare other models with this model.

    Attributes:
        key: the content hash of the retain model and of the data on which it was scored.
        path: the folder of the retain model.
        log_truth_ratios: the log truth ratio of each forget item; empty if the data have no alternative answers.
        forget_log_probs, holdout_log_probs: the mean ``log p`` per token of each forget or holdout item, in nats; empty
            if the data have no holdout set.
        min_k_auc: the AUC of min-k% membership inference; None if the data have no holdout set.
    """

    key: str
    path: str
    log_truth_ratios: tuple[float, ...]
    forget_log_probs: tuple[float, ...]
    holdout_log_probs: tuple[float, ...]
    min_k_auc: float | None


@dataclass(frozen=True, eq=False, slots=True)
class ChoiceLosses:
    """The summed NLL and token count of each answer of n items. Row i has the paraphrased answer first, followed by the
    perturbed answers."""

    totals: tuple[Array, ...]
    counts: tuple[Array, ...]

    @property
    def paraphrased(self) -> Array:
        """The loss of each paraphrased answer: ``(n,)``, nats per token."""
        return np.array([total[0] / count[0] for total, count in zip(self.totals, self.counts, strict=True)])

    @property
    def perturbed(self) -> list[Array]:
        """The losses of the perturbed answers of each item: n rows, nats per token."""
        return [total[1:] / count[1:] for total, count in zip(self.totals, self.counts, strict=True)]

    @property
    def truth_ratios(self) -> Array:
        """The truth ratio of each item: ``(n,)``. A truth ratio can overflow to infinity; its logarithm cannot."""
        return truth_ratio(self.paraphrased, self.perturbed)

    @property
    def log_truth_ratios(self) -> Array:
        """The logarithm of each item's truth ratio: ``(n,)``."""
        return log_truth_ratio(self.paraphrased, self.perturbed)


class ModelScores(Scores):
    """The per-item values of ``model``, by evaluation set. The model must not change while this object is used.

    Attributes:
        answers: the losses of the answers, by set of questions.
        choices: the losses of the paraphrased and perturbed answers.
        generated: the greedy answers, at most as long as the longest reference, and their ROUGE-L recalls ``(n,)``.
        generated_from_prompts: by metric, the greedy continuations of the data set's own prompts, and their recalls.
        tokens: the model's scores of each token of each answer.
        attacks: by metric, the scores of a membership inference attack on the forget set and on the holdout set.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        sets: EvaluationSets,
        *,
        data: TaskData,
        random_guess: float,
        retain: RetainValues | None,
    ) -> None:
        super().__init__(data, random_guess=random_guess, retain=retain)
        # The closures do not reference ``self``, because a reference cycle would keep the model in memory longer.
        scorer, seconds = sets.scorer, [0.0]
        answers = LazyDict[QuestionSet, ItemLosses](lambda asked: scorer.nll(model, asked.sequences))

        def choices(part: str) -> ChoiceLosses:
            ends = np.cumsum(sets.choices[part].sizes)[:-1]
            found = scorer.nll(model, sets.choices[part].sequences)
            return ChoiceLosses(tuple(np.split(found.totals, ends)), tuple(np.split(found.counts, ends)))

        def timed(generate: Callable[[], list[str]], references: Sequence[str]) -> tuple[list[str], Array]:
            started = time.perf_counter()
            texts = generate()
            seconds[0] += time.perf_counter() - started
            return texts, rouge_l_recall(references, texts)

        def generated(part: str) -> tuple[list[str], Array]:
            asked = sets.questions[part]
            losses, longest = answers[asked], asked.longest_answer
            return timed(
                lambda: scorer.greedy_answers(model, asked.sequences, losses, max_new_tokens=longest), asked.references
            )

        def generated_from_prompts(metric: str) -> tuple[list[str], Array]:
            asked = sets.prompted[metric]
            return timed(lambda: asked.answers(model, scorer), asked.references)

        self.sets = sets
        self.answers = answers
        self.choices = LazyDict(choices)
        self.generated = LazyDict(generated)
        self.generated_from_prompts = LazyDict(generated_from_prompts)
        self.tokens = LazyDict[str, list[TokenScores]](
            lambda part: scorer.tokens(model, sets.questions[part].sequences)
        )
        self.attacks: dict[str, tuple[Array, Array]] = {}
        self._seconds = seconds

    @property
    def generation_seconds(self) -> float:
        return self._seconds[0]

    def losses(self, part: str) -> Array:
        """Return the loss of each answer: ``(n,)``, nats per token."""
        answers = self.answers[self.sets.questions[part]]
        return answers.totals / answers.counts

    def set_losses(self) -> SetLosses:
        trained, retained = (self.answers[self.sets.questions[part]] for part in ("trained", "retain_losses"))
        return SetLosses(trained, retained, self._random_guess)

    def items(self) -> ItemLog:
        return item_log(self)

    def recalls(self, part: str, *, prompts: str | None = None) -> Array:
        """Return the ROUGE-L recall of each greedy answer, ``(n,)``.

        ``prompts`` is a metric. If the data have prompts for this metric, continuations of the prompts are scored.
        """
        return self._generated(part, prompts)[1]

    def answers_given(self, part: str, *, prompts: str) -> list[str]:
        """Return the texts of the n greedy answers that :meth:`recalls` scores."""
        return self._generated(part, prompts)[0]

    def answer_texts(self, part: str) -> list[str]:
        """Return the text of each reference answer, decoded from its tokens."""
        answers = [item.ids[item.prompt_length :] for item in self.sets.questions[part].sequences]
        return [text.strip() for text in self.sets.scorer.decode(answers)]

    def attack(self, name: str, per_text: Callable[[ModelScores, str], Array]) -> tuple[Array, Array]:
        """Return the scores that a membership inference attack gives to the forget texts and to the holdout texts."""
        if name not in self.attacks:
            inside, outside = (per_text(self, part) for part in self._sides())
            self.attacks[name] = (inside, outside)
        return self.attacks[name]

    def _generated(self, part: str, prompts: str | None) -> tuple[list[str], Array]:
        return self.generated_from_prompts[prompts] if prompts in self.sets.prompted else self.generated[part]

    def _sides(self) -> tuple[str, str]:
        """Return the names of the two sets of membership inference: the member texts and the holdout texts."""
        return ("members" if self.sets.has("members") else "forget"), "holdout"
