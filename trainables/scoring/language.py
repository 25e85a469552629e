"""Evaluate language models on fixed sets of questions and texts."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from trainables.data.examples import Example, UnlearningData
from trainables.metrics.answer_kinds import Kind, answer_kinds, garbled_bound, knows_language
from trainables.metrics.fact_recall import fact_recall
from trainables.metrics.item_mean import ItemMean
from trainables.metrics.key_facts import Fact, KeyFacts, is_told
from trainables.metrics.losses import ItemLosses
from trainables.metrics.membership import loss_scores
from trainables.metrics.metric import Array, has_choices
from trainables.metrics.registry import METRICS
from trainables.metrics.rouge import rouge_l_recall, stemmed_words
from trainables.metrics.truth_ratio import log_truth_ratio, truth_ratio
from trainables.scoring.base import (
    ItemLog,
    LazyDict,
    ModelEvaluator,
    RetainValues,
    Scores,
    TargetModel,
    generated_answers,
)
from trainables.scoring.item_log import item_log
from trainables.scoring.prompted import CONTINUATION_TOKENS, prompted_sets
from trainables.text.answer_tokens import AnswerTokens, RecordedTokens
from trainables.text.distributions import Distributions, DivergenceFromTarget
from trainables.text.scorer import TextScorer
from trainables.text.token_scores import TokenScores

if TYPE_CHECKING:
    from transformers import PreTrainedModel

COMPARED_QUESTIONS, COMPARED_ANSWERS = 10, 60
"""The maximum numbers of forget questions and of retained answers that show which answers are garbled."""
MEMORISED_VERBMEM = 0.95
"""The data count as memorised if the mean ROUGE-L recall of the forget answers exceeds this value."""


class QuestionSet:
    """A tokenised evaluation set of questions with answers, or of plain texts.

    Attributes:
        references: the reference answers. An answer that is too long is cut to the tokens of its sequence.
        whole_references: the reference answers as they are in the data.
        limits: the maximum number of tokens to generate for each question. If the reference answer is cut, the
            generated answer is cut after the same number of tokens. Otherwise the limit is the longest answer, or
            ``min_limit`` if this is larger.
    """

    def __init__(self, pairs: Sequence[tuple[str, str]], scorer: TextScorer, *, min_limit: int = 0) -> None:
        self.sequences = scorer.encode([Example(question, answer) for question, answer in pairs])
        self.questions = [question for question, _ in pairs]
        self.references = [answer for _, answer in pairs]
        self.whole_references = list(self.references)
        sizes = [len(item) - item.prompt_length for item in self.sequences]
        longest = max([*sizes, min_limit])
        self.limits = [size if item.is_cut else longest for item, size in zip(self.sequences, sizes, strict=True)]
        for index, item in enumerate(self.sequences):
            if item.is_cut:
                (text,) = scorer.decode([item.ids[item.prompt_length :]])
                self.references[index] = text.strip()


def _facts(key_facts: KeyFacts, questions: QuestionSet) -> list[tuple[Fact, ...]]:
    """Return the key facts of each reference answer, without the facts behind the end of an answer that is cut."""
    facts = []
    for question, whole, shown in zip(
        questions.questions, questions.whole_references, questions.references, strict=True
    ):
        words = stemmed_words(shown)
        facts.append(tuple(fact for fact in key_facts.find(question, whole) if is_told(fact, words)))
    return facts


class ChoiceSet:
    """The tokenised paraphrased and perturbed answers of an evaluation set, in one list.

    Examples without such answers are left out. The k-th of the remaining examples has the index ``items[k]`` in the
    evaluation set and ``sizes[k]`` answers. The paraphrased answer comes first.
    """

    def __init__(self, examples: Sequence[Example], scorer: TextScorer) -> None:
        self.items: list[int] = []
        self.sizes: list[int] = []
        choices: list[Example] = []
        for index, item in enumerate(examples):
            if has_choices(item):
                answers = (item.paraphrased_answer, *item.perturbed_answers)
                self.items.append(index)
                self.sizes.append(len(answers))
                choices += [Example(item.question, answer) for answer in answers]
        self.sequences = scorer.encode(choices)


@dataclass(frozen=True, eq=False, slots=True)
class ChoiceLosses:
    """The summed NLL (nats) and the token count of each answer, with one array per example.

    In each array, the value of the paraphrased answer comes first.
    """

    totals: tuple[Array, ...]
    counts: tuple[Array, ...]

    @property
    def paraphrased(self) -> Array:
        """The loss of each paraphrased answer: ``(n,)``, nats per token."""
        return np.array([total[0] / count[0] for total, count in zip(self.totals, self.counts, strict=True)])

    @property
    def perturbed(self) -> list[Array]:
        """The losses of the perturbed answers: one array per item, in nats per token."""
        return [total[1:] / count[1:] for total, count in zip(self.totals, self.counts, strict=True)]

    @property
    def truth_ratios(self) -> Array:
        """The truth ratio of each item: ``(n,)``. A truth ratio can be infinite."""
        return truth_ratio(self.paraphrased, self.perturbed)

    @property
    def log_truth_ratios(self) -> Array:
        return log_truth_ratio(self.paraphrased, self.perturbed)


class ModelScores(Scores):
    """The per-item values of one model. The model must not change while the object is used.

    Attributes:
        answers: the losses of the reference answers, by :class:`QuestionSet`.
        choices: the losses of the paraphrased and perturbed answers, by evaluation set.
        generated: the greedy answers and their ROUGE-L recalls, by evaluation set. For a metric with its own prompts,
            the key is the name of the metric.
        tokens: the scores of the answers' tokens, by evaluation set.
        attacks: the scores of the forget texts and of the holdout texts, by metric for membership inference.
    """

    evaluator: Evaluator

    def __init__(
        self,
        evaluator: Evaluator,
        model: PreTrainedModel,
        retain: RetainValues | None,
        target: TargetModel | None = None,
    ) -> None:
        super().__init__(evaluator, model, retain, target)
        # The closures do not reference ``self``, because a reference cycle would keep the model in memory longer.
        scorer = evaluator.scorer
        seconds = [0.0]  # a list, so that a closure can change the value
        divergences: dict[QuestionSet, Array] = {}
        forget_tokens = RecordedTokens(evaluator.questions["trained"].sequences, scorer.ends)

        def answer_losses(question_set: QuestionSet) -> ItemLosses:
            if question_set is evaluator.questions["trained"]:
                return scorer.nll(model, question_set.sequences, observe=forget_tokens)
            if target is None or question_set is not evaluator.questions["retain_losses"]:
                return scorer.nll(model, question_set.sequences)
            divergence = DivergenceFromTarget(evaluator.target_distributions(target))
            losses = scorer.nll(model, question_set.sequences, observe=divergence)
            divergences[question_set] = divergence.totals
            return losses

        answers = LazyDict(answer_losses)

        def choices(set_name: str) -> ChoiceLosses:
            choice_set = evaluator.choices[set_name]
            bounds = np.cumsum(choice_set.sizes)[:-1]
            losses = scorer.nll(model, choice_set.sequences)
            return ChoiceLosses(tuple(np.split(losses.totals, bounds)), tuple(np.split(losses.counts, bounds)))

        def greedy_answers(names: Sequence[str]) -> dict[str, tuple[list[str], Array]]:
            question_sets = [evaluator.questions[name] for name in names]
            losses = [answers[item] for item in question_sets]  # not a part of the time for generating answers
            start = time.perf_counter()
            texts = iter(
                scorer.greedy_answers(
                    model,
                    [sequence for item in question_sets for sequence in item.sequences],
                    ItemLosses.joined(losses),
                    limits=[limit for item in question_sets for limit in item.limits],
                )
            )
            seconds[0] += time.perf_counter() - start
            found = {}
            for name, item in zip(names, question_sets, strict=True):
                own = list(islice(texts, len(item.references)))
                found[name] = (own, rouge_l_recall(item.references, own))
            return found

        def generated(name: str) -> tuple[list[str], Array]:
            prompted_set = evaluator.prompted.get(name)
            if prompted_set is None:
                return greedy_answers((name,))[name]
            start = time.perf_counter()
            texts = prompted_set.answers(model, scorer)
            seconds[0] += time.perf_counter() - start
            return texts, rouge_l_recall(prompted_set.references, texts)

        self.answers = answers
        self.choices = LazyDict(choices)
        self.generated = LazyDict(generated)
        self._greedy_answers = greedy_answers
        self.tokens = LazyDict[str, list[TokenScores]](
            lambda set_name: scorer.tokens(model, evaluator.questions[set_name].sequences)
        )
        self.attacks: dict[str, tuple[Array, Array]] = {}
        self._seconds = seconds
        self._divergences = divergences
        self._forget_tokens = forget_tokens
        self._answer_losses: dict[str, ItemLosses] = {}

    @property
    def generation_seconds(self) -> float:
        return self._seconds[0]

    def generate_for(self, metrics: Sequence[str]) -> None:
        sides = [METRICS[name].of for name in metrics if name not in self.evaluator.prompted]
        self.generate(list(dict.fromkeys(side for side in sides if side is not None)))

    def generate(self, set_names: Sequence[str]) -> None:
        """Generate the greedy answers on several evaluation sets in common batches."""
        if missing := [name for name in set_names if name not in self.generated]:
            self.generated.update(self._greedy_answers(missing))

    def losses(self, set_name: str) -> Array:
        """Return the loss of each answer: ``(n,)``, nats per token."""
        answers = self.answers[self.evaluator.questions[set_name]]
        return answers.totals / answers.counts

    @property
    def forget_losses(self) -> ItemLosses:
        return self.answers[self.evaluator.questions["trained"]]

    @property
    def forget_tokens(self) -> list[AnswerTokens]:
        """The answer tokens of each example in the forget set, from the pass for the forget loss."""
        _ = self.forget_losses
        return self._forget_tokens.texts

    @property
    def retain_losses(self) -> ItemLosses:
        return self.answers[self.evaluator.questions["retain_losses"]]

    @property
    def retain_kl(self) -> ItemMean:
        """The mean of ``KL(target || model)`` over the answer tokens of the retain loss, in nats."""
        question_set = self.evaluator.questions["retain_losses"]
        counts = self.answers[question_set].counts
        totals = self._divergences[question_set]
        return ItemMean(totals.sum() / counts.sum(), [(totals, counts)])

    def answer_losses(self, set_name: str) -> ItemLosses:
        """Return the target's losses of the model's greedy answers on an evaluation set."""
        if set_name not in self._answer_losses:
            assert self.target is not None
            questions = self.evaluator.questions[set_name].questions
            texts = self.generated[set_name][0]
            with self.target() as model:
                self._answer_losses[set_name] = self.evaluator.scorer.answer_nll(model, questions, texts)
        return self._answer_losses[set_name]

    @property
    def forget_answer_kinds(self) -> list[Kind]:
        """How the model answers each question of the forget set."""
        losses = None if self.target is None else self.answer_losses("forget")
        means = None if losses is None else losses.totals / losses.counts
        bound = math.inf if self.target is None else self.evaluator.garbled_bound(self.target)
        return answer_kinds(self.generated["forget"][0], means, bound)

    def items(self) -> ItemLog:
        return item_log(self)

    def recalls(self, set_name: str, *, prompts: str | None = None) -> Array:
        """Return the ROUGE-L recall of each greedy answer on an evaluation set, ``(n,)``.

        ``prompts`` is the name of a metric. If this metric has its own prompts, the continuations of these prompts are
        scored instead.
        """
        return self._generated(set_name, prompts)[1]

    def greedy_answers(self, set_name: str, *, prompts: str) -> list[str]:
        """Return the text of each greedy answer. The arguments are those of :meth:`recalls`."""
        return self._generated(set_name, prompts)[0]

    def fact_recalls(self, set_name: str) -> Array:
        """Return the share of key facts that each greedy answer tells, ``(n,)``; NaN for an item without key facts."""
        return fact_recall(self.evaluator.facts[set_name], self.generated[set_name][0])

    def answer_texts(self, set_name: str) -> list[str]:
        """Return the text of each reference answer, decoded from its tokens."""
        answers = [item.ids[item.prompt_length :] for item in self.evaluator.questions[set_name].sequences]
        return [text.strip() for text in self.evaluator.scorer.decode(answers)]

    def attack(self, name: str, per_text: Callable[[ModelScores, str], Array]) -> tuple[Array, Array]:
        """Return the forget texts' and the holdout texts' scores in the membership inference attack ``name``."""
        if name not in self.attacks:
            self.attacks[name] = (per_text(self, self.evaluator.members), per_text(self, "holdout"))
        return self.attacks[name]

    def _generated(self, set_name: str, prompts: str | None) -> tuple[list[str], Array]:
        if prompts is not None and prompts in self.evaluator.prompted:
            return self.generated[prompts]
        return self.generated[set_name]


class Evaluator(ModelEvaluator):
    """Evaluates language models on tokenised evaluation sets.

    The constructor tokenises the sets ``forget``, ``trained``, ``retain`` and ``retain_losses``, and raises DataError
    if a prompt is too long. The other sets are tokenised when they are first used.

    Attributes:
        questions: the evaluation sets by name. ``forget`` has the examples on which metrics measure forgetting.
            ``trained`` is the forget set itself. ``retain`` is a sample of the retain set. ``retain_losses`` has the
            examples of this sample on which the retain loss is evaluated.
        choices: the paraphrased and perturbed answers, by evaluation set.
        prompted: the prompts of the metrics that have their own prompts, by metric.
        facts: the key facts of each reference answer, by evaluation set.
        members: the name of the evaluation set that contains the members for membership inference.
    """

    data: UnlearningData

    def __init__(self, data: UnlearningData, scorer: TextScorer, *, vocabulary_size: int) -> None:
        super().__init__(data, classes=vocabulary_size)
        self.scorer = scorer
        self._target_distributions: list[Distributions] | None = None
        self._garbled_bound: float | None = None
        has_texts = any(example.is_text for example in data.forget_eval)
        self.members = "texts" if has_texts else "forget"
        sets_with_choices = {"forget": data.forget_eval, "retain": data.retain_eval, **data.extra_eval}
        sets = {
            **sets_with_choices,
            "forget": data.forget_metric_set,  # replaces data.forget_eval
            "holdout": data.holdout,
            "texts": data.forget_eval if has_texts else (),
            "trained": data.forget,
            "retain_losses": data.retain_loss_set,
        }
        # Sets with equal questions and answers, such as forget and trained, are tokenised and scored only once.
        pairs = {
            set_name: tuple((item.question, item.answer) for item in examples) for set_name, examples in sets.items()
        }
        question_sets = LazyDict[tuple[tuple[str, str], ...], QuestionSet](lambda key: QuestionSet(key, scorer))

        def question_set(set_name: str) -> QuestionSet:
            if set_name not in data.own_sets:
                return question_sets[pairs[set_name]]
            # The model was trained to answer at the length of the data, even if the user's answers are short.
            shapes = [self.questions[name].limits for name in ("forget", "retain") if name in data.question_sets]
            min_limit = max(map(max, filter(None, shapes)), default=CONTINUATION_TOKENS)
            return QuestionSet(pairs[set_name], scorer, min_limit=min_limit)

        self.questions = LazyDict[str, QuestionSet](question_set)
        self.choices = LazyDict[str, ChoiceSet](lambda set_name: ChoiceSet(sets_with_choices[set_name], scorer))
        self.prompted = prompted_sets(data, scorer.tokenizer)
        key_facts = KeyFacts(data.full, data.facts)
        self.facts = LazyDict[str, list[tuple[Fact, ...]]](lambda set_name: _facts(key_facts, self.questions[set_name]))
        for set_name in ("forget", "retain"):
            _ = self.questions[set_name], self.choices[set_name]
        _ = self.questions["trained"], self.questions["retain_losses"]

    def scores(
        self, model: PreTrainedModel, *, retain: RetainValues | None = None, target: TargetModel | None = None
    ) -> ModelScores:
        return ModelScores(self, model, retain, target)

    def target_distributions(self, target: TargetModel) -> list[Distributions]:
        """Return the target's distributions of the next token on the examples of the retain loss. They are kept."""
        if self._target_distributions is None:
            with target() as model:
                sequences = self.questions["retain_losses"].sequences
                self._target_distributions = self.scorer.distributions(model, sequences)
        return self._target_distributions

    def garbled_bound(self, target: TargetModel) -> float:
        """Return the target's loss above which an answer to a forget question is garbled. The bound is kept."""
        if self._garbled_bound is None:
            forget, retain = self.questions["forget"], self.questions["retain"]
            asked = _evenly_spaced(len(forget.questions), COMPARED_QUESTIONS)
            compared = _evenly_spaced(len(retain.references), COMPARED_ANSWERS)
            answers = [retain.references[index] for index in compared]
            questions = [forget.questions[index] for index in asked for _ in answers]
            own_questions = [retain.questions[index] for index in compared]
            with target() as model:
                found = self.scorer.answer_nll(model, questions, answers * len(asked))
                own = self.scorer.answer_nll(model, own_questions, answers)
                wrong = self._wrong_answer_losses(model, own_questions)
            losses = (found.totals / found.counts).reshape(len(asked), len(answers))
            is_true = [[answer == forget.references[index] for answer in answers] for index in asked]
            true_loss = float(np.mean(own.totals / own.counts)) if answers else math.inf
            self._garbled_bound = garbled_bound(np.where(is_true, np.nan, losses), true_loss, wrong)
        return self._garbled_bound

    def _wrong_answer_losses(self, target: PreTrainedModel, questions: Sequence[str]) -> Array | None:
        """Return the target's losses of wrong answers to forget questions; None if it only knows its training data."""
        following = [*questions[1:], *questions[:1]]
        as_answers = self.scorer.answer_nll(target, questions, following)
        if not knows_language(as_answers.totals / as_answers.counts, self.random_guess):
            return None
        examples = self.data.forget_metric_set
        wrong = [(item.question, answer) for item in examples for answer in item.perturbed_answers]
        chosen = [wrong[index] for index in _evenly_spaced(len(wrong), COMPARED_ANSWERS)]
        losses = self.scorer.answer_nll(target, [item[0] for item in chosen], [item[1] for item in chosen])
        return losses.totals / losses.counts

    def verbmem(self, model: PreTrainedModel) -> float:
        """Return the metric verbmem on the forget set itself, instead of on the evaluation set ``forget``."""
        return float(self.scores(model).recalls("trained", prompts="verbmem").mean())

    def memorised(self, model: PreTrainedModel) -> bool:
        return self.verbmem(model) > MEMORISED_VERBMEM

    def reference(self, model: PreTrainedModel, *, key: str, path: str) -> RetainValues:
        scores = self.scores(model)
        values = RetainValues(
            key=key, path=path, log_truth_ratios=(), forget_log_probs=(), holdout_log_probs=(), min_k_auc=None
        )
        if self.choices["forget"].items:
            values = replace(values, log_truth_ratios=tuple(scores.choices["forget"].log_truth_ratios.tolist()))
        if not any(example.is_text for example in (*self.data.forget_eval, *self.data.retain_eval)):
            measurement = scores.measure(("facts",))
            values = replace(values, metrics=measurement.metrics, answers=generated_answers(measurement.items))
        if self.data.holdout:
            values = replace(
                values,
                forget_log_probs=tuple(loss_scores(scores, self.members).tolist()),
                holdout_log_probs=tuple(loss_scores(scores, "holdout").tolist()),
                min_k_auc=METRICS["mia_min_k"].measure(scores),
            )
        return values


def _evenly_spaced(count: int, most: int) -> list[int]:
    """Return the positions of at most ``most`` of ``count`` items."""
    size = min(count, most)
    return [index * count // size for index in range(size)]
