"""The data of a language unlearning task, before tokenization."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from typing import ClassVar

from trainables.data.errors import DataError

STANDARD_SETS = ("forget_rephrased", "retain_rephrased", "neighbours", "real_authors", "world_facts")
"""The names of the further evaluation sets of data sets. Other sets are question sets of the user."""


@dataclass(frozen=True, slots=True)
class Example:
    """A question with its answer, in TOFU's columns.

    For a plain text, the question is empty and the answer is the text.
    """

    question: str
    answer: str
    paraphrased_answer: str = ""
    perturbed_answers: tuple[str, ...] = ()

    @property
    def is_text(self) -> bool:
        return not self.question


@dataclass(frozen=True, slots=True)
class Prompted:
    """A prompt whose greedy continuation is scored.

    Attributes:
        reference: the correct continuation. Only its first ``max_new_tokens`` tokens are scored.
        max_new_tokens: the maximum length of the continuation, in tokens.
        stop: the strings that end the continuation.
    """

    prompt: str
    reference: str
    max_new_tokens: int
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UnlearningData:
    """The data of an unlearning task.

    Attributes:
        name: the data set and the split, for example ``tofu/forget10``.
        forget: the forget set.
        retain: the retain set.
        full: the target's training set.
        forget_eval: the evaluation examples about the forget set, such as TOFU's questions with paraphrased answers.
        retain_eval: a fixed sample of the retain set.
        extra_eval: further evaluation sets, by name: TOFU's real_authors and world_facts, ``neighbours`` (questions
            about subjects near the forget set), ``forget_rephrased`` and ``retain_rephrased`` (the questions of
            ``forget_eval`` and ``retain_eval`` in other words), and the user's question sets.
        holdout: texts that no model was trained on, for membership inference.
        prompted: the data set's own prompts, by name, such as MUSE's ``verbmem``.
        facts: the key facts of answers, by answer, if the data set knows the facts. The facts of other answers are
            found by a rule (see :mod:`trainables.metrics.key_facts`).
        loss_examples: the maximum number of examples on which the retain loss is evaluated; None to use all of
            ``retain_eval``.
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
    facts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    loss_examples: int | None = None

    @property
    def retain_loss_set(self) -> tuple[Example, ...]:
        """The examples on which the retain loss is evaluated, evenly spaced in ``retain_eval``."""
        count = len(self.retain_eval)
        limit = self.loss_examples
        if limit is None or count <= limit:
            return self.retain_eval
        return tuple(self.retain_eval[index * count // limit] for index in range(limit))

    @property
    def forget_metric_set(self) -> tuple[Example, ...]:
        """The examples on which metrics measure forgetting.

        These are the examples in ``forget_eval`` or, for plain texts, those in ``forget``.
        """
        # A text in ``forget`` is cut into windows that are the same for all models.
        return self.forget if any(item.is_text for item in self.forget) else self.forget_eval

    @property
    def question_sets(self) -> dict[str, tuple[Example, ...]]:
        """The evaluation sets of questions by name, without plain texts."""
        sets = {"forget": self.forget_eval, "retain": self.retain_eval, **self.extra_eval}
        return {name: items for name, items in sets.items() if not any(item.is_text for item in items)}

    @property
    def own_sets(self) -> tuple[str, ...]:
        """The names of the user's question sets."""
        return tuple(name for name in self.extra_eval if name not in STANDARD_SETS)

    @property
    def content_hash(self) -> str:
        fields = asdict(self)
        for name in ("loss_examples", "facts"):  # keeps the hash equal to that of versions without these fields
            if not fields[name]:
                del fields[name]
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()

    def with_sets(self, **sets: tuple[Example, ...]) -> UnlearningData:
        """Return a copy with further evaluation sets. Empty sets are left out."""
        return replace(self, extra_eval={**self.extra_eval, **{name: items for name, items in sets.items() if items}})

    def with_loss_examples(self, limit: int) -> UnlearningData:
        """Return a copy in which the retain loss is evaluated on at most ``limit`` examples."""
        return self if len(self.retain_eval) <= limit else replace(self, loss_examples=limit)

    def retain_task(self) -> UnlearningData:
        """Return the data for training the retain model: ``full`` is the retain set."""
        return replace(
            self,
            name=f"{self.name}, retain set",
            full=self.retain,
            forget=self.retain_eval,
            forget_eval=self.retain_eval,
            prompted={},
        )


def limit_retain(data: UnlearningData, limit: int | None, *, per_author: int) -> UnlearningData:
    """Return the data with at most ``limit`` retain examples.

    If some questions about an author exceed the limit, all questions about this author are dropped. Dropped examples
    are also removed from ``full`` and ``retain_eval``.

    Raises:
        DataError: ``limit`` is less than the number of questions per author.
    """
    if limit is None:
        return data
    kept_count = limit // per_author * per_author
    if kept_count == 0:
        raise DataError(
            f"--limit {limit} keeps no author: this data set has {per_author} questions per author, which are kept or "
            f"left out together, so the limit must be at least {per_author}"
        )
    retain = data.retain[:kept_count]
    questions, answers = [{getattr(item, field) for item in retain} for field in ("question", "answer")]
    sets = {
        name: tuple(item for item in data.extra_eval[name] if item.answer in answers)
        for name in ("retain_rephrased", "neighbours")
        if name in data.extra_eval
    }
    return replace(
        data,
        extra_eval=data.extra_eval | sets,
        retain=retain,
        full=(*retain, *data.forget),
        retain_eval=tuple(example for example in data.retain_eval if example.question in questions),
    )
