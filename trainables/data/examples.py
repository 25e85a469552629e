"""The data of a language unlearning task, before tokenization."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import ClassVar

from trainables.data.errors import DataError


@dataclass(frozen=True, slots=True)
class Example:
    """One question with its answer, in TOFU's columns; paraphrase and perturbations may be empty.

    Plain text has an empty question, and its ``answer`` is the text, all of which is learned or forgotten.
    """

    question: str
    answer: str
    paraphrased_answer: str = ""
    perturbed_answers: tuple[str, ...] = ()

    @property
    def is_text(self) -> bool:
        """Whether this is plain text rather than an answer to a question."""
        return not self.question


@dataclass(frozen=True, slots=True)
class Prompted:
    """A prompt whose greedy continuation is scored against a reference.

    Attributes:
        prompt: the text from which generation starts, word for word.
        reference: the right continuation; only its first ``max_new_tokens`` tokens count.
        max_new_tokens: the longest continuation.
        stop: the continuation ends before the first occurrence of any of these strings.
    """

    prompt: str
    reference: str
    max_new_tokens: int
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UnlearningData:
    """The data of an unlearning task: what to forget, what to retain, and the fixed evaluation sets.

    Attributes:
        name: the data set and split, for example ``tofu/forget10``.
        forget: the forget set F; the run trains on all of it.
        retain: the retain set R.
        full: the target's training set, F and R together.
        forget_eval: the items on which metrics judge forgetting: the whole forget set with paraphrased and perturbed
            answers, or other questions about it (MUSE: a fixed sample of its texts).
        retain_eval: a fixed sample of the retain set, with paraphrased and perturbed answers.
        loss_examples: the most items of retain_eval for every epoch's retain loss; None for all.
        extra_eval: further named evaluation sets (TOFU's real_authors and world_facts).
        holdout: texts of the same kind that no model was trained on, for membership inference.
        prompted: the data set's own questions by metric (MUSE's verbmem, knowmem_forget, knowmem_retain); a metric
            without questions is measured on forget_eval or retain_eval.
    """

    modality: ClassVar[str] = "language"

    name: str
    forget: tuple[Example, ...]
    retain: tuple[Example, ...]
    full: tuple[Example, ...]
    forget_eval: tuple[Example, ...]
    retain_eval: tuple[Example, ...]
    extra_eval: dict[str, tuple[Example, ...]] = field(default_factory=dict)
    holdout: tuple[Example, ...] = ()
    prompted: dict[str, tuple[Prompted, ...]] = field(default_factory=dict)
    loss_examples: int | None = None

    @property
    def retain_losses(self) -> tuple[Example, ...]:
        """The items of every epoch's retain loss, spread evenly over retain_eval."""
        number, most = len(self.retain_eval), self.loss_examples
        if most is None or number <= most:
            return self.retain_eval
        return tuple(self.retain_eval[place * number // most] for place in range(most))

    @property
    def judged(self) -> tuple[Example, ...]:
        """The forget items that metrics use: ``forget_eval``; for running text F itself, which is cut alike for all
        models."""
        return self.forget if any(item.is_text for item in self.forget) else self.forget_eval

    @property
    def judged_as_trained(self) -> bool:
        """Whether the judged items are F's own questions and answers, so that one pass serves both."""
        return self.judged is self.forget or _asked(self.judged) == _asked(self.forget)

    @property
    def content_hash(self) -> str:
        """A hash of all fields."""
        fields = asdict(self)
        if self.loss_examples is None:
            del fields["loss_examples"]  # keeps the hash of versions without this field
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()

    def with_loss_examples(self, most: int) -> UnlearningData:
        """Return the same data with the retain loss on at most ``most`` items; unchanged if there are no more."""
        return self if len(self.retain_eval) <= most else replace(self, loss_examples=most)

    def retain_task(self) -> UnlearningData:
        """Return the retain model's data: the retain set replaces what a target learns and is evaluated on."""
        return replace(
            self,
            name=f"{self.name}, retain set",
            full=self.retain,
            forget=self.retain_eval,
            forget_eval=self.retain_eval,
            prompted={},
        )


def _asked(examples: Sequence[Example]) -> list[tuple[str, str]]:
    return [(item.question, item.answer) for item in examples]


def keep_retain(data: UnlearningData, limit: int | None, *, per_author: int) -> UnlearningData:
    """Return the data with at most ``limit`` retain examples, in whole authors of ``per_author`` questions; None keeps
    all.

    ``full`` and ``retain_eval`` shrink with the retain set.

    Raises:
        DataError: ``limit`` is less than one author.
    """
    if limit is None:
        return data
    kept = limit // per_author * per_author
    if kept == 0:
        raise DataError(
            f"--limit {limit} keeps no whole author: this data set has {per_author} questions per author, "
            f"give at least {per_author}"
        )
    retain = data.retain[:kept]
    known = {example.question for example in retain}
    return replace(
        data,
        retain=retain,
        full=(*retain, *data.forget),
        retain_eval=tuple(example for example in data.retain_eval if example.question in known),
    )
