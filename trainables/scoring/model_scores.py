"""The per-item values of one model on one problem, each computed when first asked for and once, and the metrics."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from trainables.metrics import membership
from trainables.metrics.forget_quality import forget_quality
from trainables.metrics.items import Array
from trainables.metrics.memorization import exact_memorization, extraction_strength
from trainables.metrics.model_utility import Scores, model_utility
from trainables.metrics.privleak import privleak
from trainables.metrics.probability import normalised_probability, probability
from trainables.metrics.registry import METRICS, distance_name
from trainables.metrics.rouge import rouge_l_recall
from trainables.metrics.truth_ratio import forget_truth_ratio, log_truth_ratio, retain_truth_ratio, truth_ratio
from trainables.scoring.evaluation_sets import ChoiceSet, QuestionSet
from trainables.scoring.prompted import PromptedSet
from trainables.text.generation import generate_greedy
from trainables.text.losses import sequence_nll
from trainables.text.token_scores import TokenScores, token_scores
from trainables.text.tokens import Tokens, pad_id

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


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
    """Per-item values of ``model`` by evaluation set. The model must not change while they are asked for."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        questions: Mapping[str, QuestionSet],
        choices: Mapping[str, ChoiceSet],
        prompted: Mapping[str, PromptedSet],
        template: str,
        retain: RetainValues | None,
        batch_size: int,
        device: torch.device | str,
    ) -> None:
        self.questions = questions
        self.choice_sets = choices
        self.prompted = prompted
        self.template = template
        self.retain = retain
        self.generation_seconds = 0.0
        self.known_answers: dict[str, tuple[Array, Array]] = {}
        self.known_choices: dict[str, ChoiceLosses] = {}
        self.known_texts: dict[str, tuple[list[str], Array]] = {}
        self.known_prompted: dict[str, tuple[list[str], list[str], Array]] = {}
        self.known_attacks: dict[str, tuple[Array, Array]] = {}
        self._tokens: dict[str, list[TokenScores]] = {}
        self._model = model
        self._tokenizer = tokenizer
        self._batch_size = batch_size
        self._device = device

    def answers(self, part: str) -> tuple[Array, Array]:
        """Summed NLL of each answer (nats) and its number of tokens, each ``(n,)``."""
        if part not in self.known_answers:
            self.known_answers[part] = self._nll(self.questions[part].sequences)
        return self.known_answers[part]

    def losses(self, part: str) -> Array:
        """Loss of each answer, nats per token, ``(n,)``."""
        totals, counts = self.answers(part)
        return totals / counts

    def choices(self, part: str) -> ChoiceLosses:
        """Losses of paraphrased and perturbed answers."""
        if part not in self.known_choices:
            chosen = self.choice_sets[part]
            ends = np.cumsum(chosen.sizes)[:-1]
            totals, counts = (tuple(np.split(values, ends)) for values in self._nll(chosen.sequences))
            self.known_choices[part] = ChoiceLosses(totals, counts)
        return self.known_choices[part]

    def truth_ratios(self, part: str) -> Array:
        """Truth ratio of each item that has choices."""
        found = self.choices(part)
        return truth_ratio(found.paraphrased, found.perturbed)

    def recalls(self, part: str) -> Array:
        """ROUGE-L recall of each greedy answer, ``(n,)``; an answer may be as long as the longest reference."""
        if part not in self.known_texts:
            questions = self.questions[part]
            started = time.perf_counter()
            texts = generate_greedy(
                self._model,
                self._tokenizer,
                [item.prompt for item in questions.sequences],
                max_new_tokens=questions.longest_answer,
                batch_size=self._batch_size,
                device=self._device,
            )
            self.generation_seconds += time.perf_counter() - started
            self.known_texts[part] = (texts, rouge_l_recall(questions.references, texts))
        return self.known_texts[part][1]

    def prompted_recalls(self, metric: str) -> Array:
        """ROUGE-L recall of each greedy continuation of the data set's own prompts, ``(n,)``."""
        if metric not in self.known_prompted:
            prompted = self.prompted[metric]
            started = time.perf_counter()
            texts = prompted.answers(self._model, self._tokenizer, batch_size=self._batch_size, device=self._device)
            self.generation_seconds += time.perf_counter() - started
            prompts = self._tokenizer.batch_decode(prompted.prompts, skip_special_tokens=True)
            self.known_prompted[metric] = (prompts, texts, rouge_l_recall(prompted.references, texts))
        return self.known_prompted[metric][2]

    def tokens(self, part: str) -> list[TokenScores]:
        """Per-token values of each answer."""
        if part not in self._tokens:
            self._tokens[part] = token_scores(
                self._model,
                self.questions[part].sequences,
                pad_id=pad_id(self._tokenizer),
                eos_id=int(self._tokenizer.eos_token_id),
                batch_size=self._batch_size,
                device=self._device,
            )
        return self._tokens[part]

    def attack(self, name: str) -> float:
        """AUC of one membership inference attack, forget set against holdout set."""
        if name not in self.known_attacks:
            inside, outside = (self._membership(name, part) for part in self._sides())
            self.known_attacks[name] = (inside, outside)
        return membership.membership_auc(*self.known_attacks[name])

    def reference(self, *, key: str, path: str) -> RetainValues:
        """These values as those of a retain model."""
        ratios: tuple[float, ...] = ()
        if "forget" in self.choice_sets:
            found = self.choices("forget")
            ratios = tuple(log_truth_ratio(found.paraphrased, found.perturbed).tolist())
        if "holdout" not in self.questions:
            return RetainValues(key, path, ratios, (), (), None)
        inside, outside = (tuple(float(item.log_probs.mean()) for item in self.tokens(part)) for part in self._sides())
        return RetainValues(key, path, ratios, inside, outside, self.attack("mia_min_k"))

    def measure(self, names: Sequence[str]) -> dict[str, float]:
        """The metrics called ``names``, in that order."""
        return {name: float(COMPUTED[name](self)) for name in names}

    def _sides(self) -> tuple[str, str]:
        """The sets of membership inference: those trained on and those not."""
        return ("members" if "members" in self.questions else "forget"), "holdout"

    def _membership(self, name: str, part: str) -> Array:
        items = self.tokens(part)
        log_probs = [item.log_probs for item in items]
        if name == "mia_zlib":
            return membership.zlib_scores(log_probs, self._answer_texts(self.questions[part].sequences))
        if name == "mia_min_k":
            return membership.min_k_scores(log_probs)
        if name == "mia_min_k_plus_plus":
            means, stds = [item.means for item in items], [item.stds for item in items]
            return membership.min_k_plus_plus_scores(log_probs, means, stds)
        if name == "mia_reference":
            assert self.retain is not None
            known = self.retain.forget_log_probs if part != "holdout" else self.retain.holdout_log_probs
            return membership.reference_scores(log_probs, [[value] for value in known])
        return membership.loss_scores(log_probs)

    def _answer_texts(self, sequences: Sequence[Tokens]) -> list[str]:
        answers = [item.ids[item.prompt_length :] for item in sequences]
        return [text.strip() for text in self._tokenizer.batch_decode(answers, skip_special_tokens=True)]

    def _nll(self, sequences: Sequence[Tokens]) -> tuple[Array, Array]:
        totals, counts = sequence_nll(
            self._model,
            sequences,
            pad_id=pad_id(self._tokenizer),
            batch_size=self._batch_size,
            device=self._device,
        )
        return np.asarray(totals, dtype=np.float64), np.asarray(counts, dtype=np.float64)


def _recalls(scores: ModelScores, metric: str, part: str) -> Array:
    return scores.prompted_recalls(metric) if metric in scores.prompted else scores.recalls(part)


def _forget_quality(scores: ModelScores) -> float:
    assert scores.retain is not None
    found = scores.choices("forget")
    return forget_quality(log_truth_ratio(found.paraphrased, found.perturbed), scores.retain.log_truth_ratios).p_value


def _model_utility(scores: ModelScores) -> float:
    def among_choices(part: str) -> Scores:
        items = scores.choice_sets[part].items
        right = scores.losses(part)[items]
        chance = normalised_probability(right, scores.choices(part).perturbed)
        return aggregated(part, chance)

    def aggregated(part: str, chance: Array) -> Scores:
        return Scores(
            float(chance.mean()), float(scores.recalls(part).mean()), retain_truth_ratio(scores.truth_ratios(part))
        )

    return model_utility(
        retain=aggregated("retain", probability(scores.losses("retain"))),
        real_authors=among_choices("real_authors"),
        world_facts=among_choices("world_facts"),
    )


def _privleak(scores: ModelScores) -> float:
    assert scores.retain is not None
    assert scores.retain.min_k_auc is not None
    auc = scores.attack("mia_min_k")
    # Relative to 1 - AUC of the retain model, which at 1 is nothing to be relative to.
    return privleak(unlearned_auc=auc, retrained_auc=scores.retain.min_k_auc) if scores.retain.min_k_auc < 1 else np.nan


def _memorised(measure: Callable[..., Array]) -> Callable[[ModelScores], float]:
    def mean(scores: ModelScores) -> float:
        items = scores.tokens("forget")
        return float(measure([item.predicted for item in items], [item.labels for item in items]).mean())

    return mean


def _far_from(ideal: float, compute: Callable[[ModelScores], float]) -> Callable[[ModelScores], float]:
    return lambda scores: abs(compute(scores) - ideal)


def _attacked_by(name: str) -> Callable[[ModelScores], float]:
    return lambda scores: scores.attack(name)


_COMPUTED: dict[str, Callable[[ModelScores], float]] = {
    "verbmem": lambda scores: _recalls(scores, "verbmem", "forget").mean(),
    "knowmem": lambda scores: scores.prompted_recalls("knowmem").mean(),
    "utility": lambda scores: _recalls(scores, "utility", "retain").mean(),
    "truth_ratio": lambda scores: retain_truth_ratio(scores.truth_ratios("retain")),
    "forget_truth_ratio": lambda scores: forget_truth_ratio(scores.truth_ratios("forget")),
    "forget_probability": lambda scores: probability(scores.losses("forget")).mean(),
    "retain_probability": lambda scores: probability(scores.losses("retain")).mean(),
    "forget_quality": _forget_quality,
    "model_utility": _model_utility,
    "extraction_strength": _memorised(extraction_strength),
    "exact_memorization": _memorised(exact_memorization),
    "privleak": _privleak,
} | {name: _attacked_by(name) for name in ("mia_loss", "mia_zlib", "mia_min_k", "mia_min_k_plus_plus", "mia_reference")}
COMPUTED = MappingProxyType(
    _COMPUTED
    | {
        distance_name(name): _far_from(ideal, _COMPUTED[name])
        for name, metric in METRICS.items()
        if (ideal := metric.ideal) is not None
    }
)
"""Every metric of a language model by name."""
