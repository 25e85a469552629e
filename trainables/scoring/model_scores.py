"""The per-item values of one model on one problem, each computed when first asked for and once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainables.metrics.membership import MIN_K_ATTACK
from trainables.metrics.rouge import rouge_l_recall
from trainables.metrics.truth_ratio import log_truth_ratio, truth_ratio
from trainables.scoring.evaluation_sets import EvaluationSets
from trainables.scoring.text_scorer import TextScorer

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from transformers import PreTrainedModel

    from trainables.metrics.items import Array
    from trainables.text.token_scores import TokenScores


@dataclass(frozen=True, slots=True)
class RetainValues:
    """What metrics need of a model trained without the forget set.

    Attributes:
        key: content hash of that model and of the data it was scored on.
        path: its folder.
        log_truth_ratios: of the forget set's items; empty where the data have no choices.
        forget_log_probs, holdout_log_probs: per item the mean ``log p`` (nats per token); empty without a holdout set.
        min_k_auc: AUC of min-k% membership inference, None without a holdout set.
    """

    key: str
    path: str
    log_truth_ratios: tuple[float, ...]
    forget_log_probs: tuple[float, ...]
    holdout_log_probs: tuple[float, ...]
    min_k_auc: float | None


@dataclass(frozen=True, eq=False, slots=True)
class ChoiceLosses:
    """Of n items with choices, row i the paraphrased answer and then the perturbed ones: summed NLL and tokens."""

    totals: tuple[Array, ...]
    counts: tuple[Array, ...]

    @property
    def paraphrased(self) -> Array:
        """``(n,)``, nats per token."""
        return np.array([total[0] / count[0] for total, count in zip(self.totals, self.counts, strict=True)])

    @property
    def perturbed(self) -> list[Array]:
        """n rows, nats per token."""
        return [total[1:] / count[1:] for total, count in zip(self.totals, self.counts, strict=True)]


class ModelScores:
    """Per-item values of ``model`` by evaluation set. The model must not change while they are asked for.

    ``known`` are answers' losses found before, as :meth:`answers` gives them.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        sets: EvaluationSets,
        scorer: TextScorer,
        *,
        retain: RetainValues | None = None,
        known: Mapping[str, tuple[Array, Array]] | None = None,
    ) -> None:
        self.sets = sets
        self.scorer = scorer
        self.retain = retain
        self.generation_seconds = 0.0
        self.known_answers = dict(known or {})
        self.known_choices: dict[str, ChoiceLosses] = {}
        self.known_texts: dict[str, tuple[list[str], Array]] = {}
        self.known_prompted: dict[str, tuple[list[str], list[str], Array]] = {}
        self.known_attacks: dict[str, tuple[Array, Array]] = {}
        self._tokens: dict[str, list[TokenScores]] = {}
        self._model = model

    def answers(self, part: str) -> tuple[Array, Array]:
        """Summed NLL of each answer (nats) and its number of tokens, each ``(n,)``."""
        if part not in self.known_answers:
            self.known_answers[part] = self.scorer.nll(self._model, self.sets.questions(part).sequences)
        return self.known_answers[part]

    def losses(self, part: str) -> Array:
        """Loss of each answer, nats per token, ``(n,)``."""
        totals, counts = self.answers(part)
        return totals / counts

    def choices(self, part: str) -> ChoiceLosses:
        """Losses of paraphrased and perturbed answers."""
        if part not in self.known_choices:
            chosen = self.sets.choices(part)
            ends = np.cumsum(chosen.sizes)[:-1]
            found = self.scorer.nll(self._model, chosen.sequences)
            totals, counts = (tuple(np.split(values, ends)) for values in found)
            self.known_choices[part] = ChoiceLosses(totals, counts)
        return self.known_choices[part]

    def truth_ratios(self, part: str) -> Array:
        """Truth ratio of each item that has choices."""
        found = self.choices(part)
        return truth_ratio(found.paraphrased, found.perturbed)

    def log_truth_ratios(self, part: str) -> Array:
        """Its logarithm, which does not overflow."""
        found = self.choices(part)
        return log_truth_ratio(found.paraphrased, found.perturbed)

    def recalls(self, part: str, *, prompts: str | None = None) -> Array:
        """ROUGE-L recall of each greedy answer, ``(n,)``; an answer may be as long as the longest reference.

        Where the data have prompts of their own for the metric called ``prompts``: of each greedy continuation.
        """
        if prompts in self.sets.prompted:
            return self._prompted_recalls(prompts)
        if part not in self.known_texts:
            asked = self.sets.questions(part)
            started = time.perf_counter()
            texts = self.scorer.continuations(
                self._model, [item.prompt for item in asked.sequences], max_new_tokens=asked.longest_answer
            )
            self.generation_seconds += time.perf_counter() - started
            self.known_texts[part] = (texts, rouge_l_recall(asked.references, texts))
        return self.known_texts[part][1]

    def log_probs(self, part: str) -> list[Array]:
        """Of each answer the log-probability of each token (nats)."""
        return [item.log_probs for item in self._token_scores(part)]

    def vocabulary_moments(self, part: str) -> tuple[list[Array], list[Array]]:
        """Of each answer mean and standard deviation, at each token, of log p(v) over words v drawn from p."""
        items = self._token_scores(part)
        return [item.means for item in items], [item.stds for item in items]

    def predictions(self, part: str) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]]:
        """Of each answer the likeliest token at each place, after the true ones before it, and the true token."""
        items = self._token_scores(part)
        return [item.predicted for item in items], [item.labels for item in items]

    def answer_texts(self, part: str) -> list[str]:
        """Each answer as its tokens say it."""
        answers = [item.ids[item.prompt_length :] for item in self.sets.questions(part).sequences]
        return [text.strip() for text in self.scorer.decode(answers)]

    def attack(self, name: str, per_text: Callable[[ModelScores, str], Array]) -> tuple[Array, Array]:
        """The scores of the forget set's texts and of the holdout set's under one membership inference attack."""
        if name not in self.known_attacks:
            inside, outside = (per_text(self, part) for part in self._sides())
            self.known_attacks[name] = (inside, outside)
        return self.known_attacks[name]

    def reference(self, *, key: str, path: str) -> RetainValues:
        """These values as those of a retain model."""
        ratios = tuple(self.log_truth_ratios("forget").tolist()) if self.sets.has_choices("forget") else ()
        if not self.sets.has("holdout"):
            return RetainValues(key, path, ratios, (), (), None)
        inside, outside = (tuple(float(item.mean()) for item in self.log_probs(part)) for part in self._sides())
        return RetainValues(key, path, ratios, inside, outside, MIN_K_ATTACK.measure(self))

    def _sides(self) -> tuple[str, str]:
        """The sets of membership inference: those trained on and those not."""
        return ("members" if self.sets.has("members") else "forget"), "holdout"

    def _prompted_recalls(self, metric: str) -> Array:
        if metric not in self.known_prompted:
            prompted = self.sets.prompted[metric]
            started = time.perf_counter()
            texts = prompted.answers(self._model, self.scorer)
            self.generation_seconds += time.perf_counter() - started
            recalls = rouge_l_recall(prompted.references, texts)
            self.known_prompted[metric] = (self.scorer.decode(prompted.prompts), texts, recalls)
        return self.known_prompted[metric][2]

    def _token_scores(self, part: str) -> list[TokenScores]:
        if part not in self._tokens:
            self._tokens[part] = self.scorer.tokens(self._model, self.sets.questions(part).sequences)
        return self._tokens[part]
