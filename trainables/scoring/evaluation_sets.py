"""The fixed evaluation sets of a problem, tokenised: questions with their answers, and answers to choose between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trainables.data import DataError, ProblemData
from trainables.data.examples import Example, UnlearningData
from trainables.metrics.registry import ACCURACIES, LOSS_METRICS, METRICS, Need, chosen_metrics, missing_metrics
from trainables.text.tokens import encode, encode_examples

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

EXTRA_SETS = ("real_authors", "world_facts")
Parts = Mapping[str, Sequence[Example]]


class MetricError(DataError):
    """A metric was asked for that the data cannot give; the message is a plain sentence for the user."""


class QuestionSet:
    """The tokenised questions and answers of one evaluation set, or its texts in windows of ``max_length`` tokens."""

    def __init__(
        self, examples: Sequence[Example], tokenizer: PreTrainedTokenizerBase, max_length: int, template: str
    ) -> None:
        self.sequences = encode_examples(tokenizer, examples, max_length=max_length, template=template)
        self.questions = [example.question for example in examples]
        self.references = [example.answer for example in examples]
        self.longest_answer = max((len(item) - item.prompt_length for item in self.sequences), default=0)


class ChoiceSet:
    """Per item the paraphrased answer and then the perturbed ones, flattened.

    ``sizes[i]`` is the number of answers of item i, ``items[i]`` its place in the evaluation set.
    """

    def __init__(
        self, examples: Sequence[Example], tokenizer: PreTrainedTokenizerBase, max_length: int, template: str
    ) -> None:
        usable = [(place, item) for place, item in enumerate(examples) if has_choices(item)]
        self.items = [place for place, _ in usable]
        self.sizes = [1 + len(item.perturbed_answers) for _, item in usable]
        self.sequences = tuple(
            encode(tokenizer, item.question, answer, max_length=max_length, template=template)
            for _, item in usable
            for answer in (item.paraphrased_answer, *item.perturbed_answers)
        )


def has_choices(example: Example) -> bool:
    """Whether a truth ratio can be had of the example."""
    return bool(example.paraphrased_answer and example.perturbed_answers)


def what_is_missing(data: Any, *, retain_model: bool = True) -> dict[str, str]:
    """The metrics this problem cannot give, each with what it lacks; ``retain_model``: whether there is or can be one.

    A truth ratio is of its own set: data may have choices for the retain sample only.
    """
    if data.modality == "vision":
        has = dict.fromkeys(Need, False) | {Need.IMAGES: True, Need.HOLDOUT: len(data.holdout) > 0}
        texts = [name for name in METRICS if name not in (*LOSS_METRICS, *ACCURACIES)]
        return missing_metrics(has) | dict.fromkeys(texts, "a language model")
    forget, retain = (any(map(has_choices, part)) for part in (data.forget_eval, data.retain_eval))
    missing = missing_metrics(
        {
            Need.CHOICES: forget or retain,
            Need.EXTRA_SETS: all(any(map(has_choices, data.extra_eval.get(name, ()))) for name in EXTRA_SETS),
            Need.HOLDOUT: bool(data.holdout),
            Need.RETAIN_MODEL: retain_model,
            Need.KNOWMEM: "knowmem_forget" in data.prompted,
            Need.IMAGES: False,
        }
    )
    for names, there, where in (
        (("truth_ratio", "model_utility"), retain, "retain"),
        (("forget_truth_ratio", "forget_quality"), forget, "forget"),
    ):
        if not there:
            missing |= dict.fromkeys(names, f"{Need.CHOICES} of the {where} set")
    return missing


def metrics_of(names: Sequence[str], data: ProblemData, *, retain_model: bool = True) -> tuple[str, ...]:
    """The metrics to measure on ``data``, in the order of the table; sets of metrics leave out what the data lack.

    Raises:
        MetricError: metrics asked for by name cannot be had; all of them are told.
    """
    missing = what_is_missing(data, retain_model=retain_model)
    wrong = [f"{name} needs {missing[name]}" for name in names if name in missing]
    if wrong:
        can = ", ".join(name for name in METRICS if name not in missing)
        raise MetricError(
            f"the data set {data.name} cannot give every metric asked for: {'; '.join(wrong)}; it gives {can}"
        )
    return chosen_metrics(names, missing)


def core_sets(data: UnlearningData) -> tuple[Parts, Parts]:
    """The sets of the default metrics: those with questions, and those with answers to choose between."""
    return (
        {"forget": data.judged, "retain": data.retain_eval},
        {"forget": data.forget_eval, "retain": data.retain_eval},
    )


def further_sets(data: UnlearningData) -> tuple[Parts, Parts]:
    """The sets of all other metrics, in the same way.

    ``members`` are the forget set's texts as the data set cuts them for membership inference, where the forget set is
    running text and has no items of its own (MUSE).
    """
    members = data.forget_eval if any(example.is_text for example in data.forget_eval) else ()
    return {**data.extra_eval, "holdout": data.holdout, "members": members}, data.extra_eval


def question_sets(
    parts: Parts, tokenizer: PreTrainedTokenizerBase, max_length: int, template: str
) -> dict[str, QuestionSet]:
    """The parts that have items, tokenised."""
    return {
        name: QuestionSet(examples, tokenizer, max_length, template) for name, examples in parts.items() if examples
    }


def choice_sets(
    parts: Parts, tokenizer: PreTrainedTokenizerBase, max_length: int, template: str
) -> dict[str, ChoiceSet]:
    """The parts that have paraphrased and perturbed answers, tokenised."""
    return {
        name: ChoiceSet(examples, tokenizer, max_length, template)
        for name, examples in parts.items()
        if any(map(has_choices, examples))
    }
