"""The fixed evaluation sets of a problem, tokenised: questions with their answers, and answers to choose between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from trainables.data.errors import DataError
from trainables.data.examples import Example, UnlearningData
from trainables.metrics.registry import Need, chosen_metrics, missing_metrics
from trainables.tokens import encode, encode_examples

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

EXTRA_SETS = ("real_authors", "world_facts")


class MetricError(DataError):
    """A metric was asked for that the data cannot give; the message is a plain sentence for the user."""


class QuestionSet:
    """The tokenised questions and answers of one evaluation set."""

    def __init__(self, examples: Sequence[Example], tokenizer: PreTrainedTokenizerBase, max_length: int) -> None:
        self.sequences = encode_examples(tokenizer, examples, max_length=max_length)
        self.questions = [example.question for example in examples]
        self.references = [example.answer for example in examples]
        self.longest_answer = max((len(item) - item.prompt_length for item in self.sequences), default=0)


class ChoiceSet:
    """Per item the paraphrased answer and then the perturbed ones, flattened; falsy where the data have none.

    ``sizes[i]`` is the number of answers of item i, ``items[i]`` its place in the evaluation set.
    """

    def __init__(self, examples: Sequence[Example], tokenizer: PreTrainedTokenizerBase, max_length: int) -> None:
        usable = [(place, item) for place, item in enumerate(examples) if has_choices(item)]
        self.items = [place for place, _ in usable]
        self.sizes = [1 + len(item.perturbed_answers) for _, item in usable]
        self.sequences = tuple(
            encode(tokenizer, item.question, answer, max_length=max_length)
            for _, item in usable
            for answer in (item.paraphrased_answer, *item.perturbed_answers)
        )

    def __bool__(self) -> bool:
        return bool(self.sequences)


def has_choices(example: Example) -> bool:
    """Whether a truth ratio can be had of the example."""
    return bool(example.paraphrased_answer and example.perturbed_answers)


def what_is_missing(data: UnlearningData, *, retain_model: bool = True) -> dict[str, str]:
    """The metrics this problem cannot give, each with what it lacks; ``retain_model``: whether there is or can be one.

    A truth ratio is of its own set: data may have choices for the retain sample only.
    """
    forget, retain = (any(map(has_choices, part)) for part in (data.forget_eval, data.retain_eval))
    extra = all(any(map(has_choices, data.extra_eval.get(name, ()))) for name in EXTRA_SETS)
    has = {
        Need.CHOICES: forget or retain,
        Need.EXTRA_SETS: extra,
        Need.HOLDOUT: bool(data.holdout),
        Need.RETAIN_MODEL: retain_model,
    }
    missing = missing_metrics(has)
    for names, there, where in (
        (("truth_ratio", "model_utility"), retain, "retain"),
        (("forget_truth_ratio", "forget_quality"), forget, "forget"),
    ):
        if not there:
            missing |= dict.fromkeys(names, f"{Need.CHOICES} of the {where} set")
    return missing


def metrics_of(names: Sequence[str], data: UnlearningData, *, retain_model: bool = True) -> tuple[str, ...]:
    """The metrics to measure on ``data``, in the order of the table; sets of metrics leave out what the data lack.

    Raises:
        MetricError: metrics asked for by name cannot be had; all of them are told.
    """
    missing = what_is_missing(data, retain_model=retain_model)
    wrong = [f"{name} needs {missing[name]}" for name in names if name in missing]
    if wrong:
        raise MetricError(f"the data set {data.name} cannot give every metric asked for: {'; '.join(wrong)}")
    return chosen_metrics(names, missing)


def question_sets(
    data: UnlearningData, tokenizer: PreTrainedTokenizerBase, max_length: int
) -> Mapping[str, QuestionSet]:
    """``forget``, ``retain``, and where the data have them ``real_authors``, ``world_facts`` and ``holdout``."""
    parts = {"forget": data.forget, "retain": data.retain_eval, "holdout": data.holdout, **data.extra_eval}
    return {name: QuestionSet(examples, tokenizer, max_length) for name, examples in parts.items() if examples}


def choice_sets(data: UnlearningData, tokenizer: PreTrainedTokenizerBase, max_length: int) -> Mapping[str, ChoiceSet]:
    """The same of those sets that have paraphrased and perturbed answers."""
    parts = {"forget": data.forget_eval, "retain": data.retain_eval, **data.extra_eval}
    sets = {name: ChoiceSet(examples, tokenizer, max_length) for name, examples in parts.items()}
    return {name: found for name, found in sets.items() if found}
