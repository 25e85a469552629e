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
    """A question with its answer. The fields are TOFU's columns; the paraphrase and perturbed answers may be empty.

    For plain text, the question is empty and ``answer`` is the text. The whole text is then learned or forgotten.
    """

    question: str
    answer: str
    paraphrased_answer: str = ""
    perturbed_answers: tuple[str, ...] = ()

    @property
    def is_text(self) -> bool:
        """Whether the example is a plain text and not a question with an answer."""
        return not self.question


@dataclass(frozen=True, slots=True)
class Prompted:
    """A prompt whose greedy continuation is scored against a reference.

    Attributes:
        prompt: the exact text from which generation starts.
        reference: the right continuation. Only its first ``max_new_tokens`` tokens count.
        max_new_tokens: the maximum length of the continuation, in tokens.
        stop: stop strings. The continuation is cut before the first stop string that occurs.
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
        forget: the forget set F. Each unlearning run trains on all of F.
        retain: the retain set R.
        full: the target's training set: F, R and, for some data sets, further texts.
        forget_eval: the items on which metrics measure forgetting. This is F with paraphrased and perturbed answers, or
            other items with the same content as F. For MUSE, it is a fixed sample of the forget texts.
        retain_eval: a fixed sample of the retain set, with paraphrased and perturbed answers.
        loss_examples: the maximum number of retain_eval items on which each epoch's retain loss is measured; None for
            all items.
        extra_eval: further named evaluation sets (TOFU's real_authors and world_facts).
        holdout: texts of the same kind that no model was trained on, for membership inference.
        prompted: by metric, the data set's own prompts (MUSE has them for verbmem, knowmem_forget and knowmem_retain).
            A metric without its own prompts is measured on forget_eval or retain_eval.
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
        """The items on which every epoch's retain loss is computed. They are evenly spaced in retain_eval."""
        number, most = len(self.retain_eval), self.loss_examples
        if most is None or number <= most:
            return self.retain_eval
        return tuple(self.retain_eval[place * number // most] for place in range(most))

    @property
    def judged(self) -> tuple[Example, ...]:
        """The items on which metrics measure forgetting: the forget set F if F is running text, otherwise
        ``forget_eval``. Running text is cut into the same windows for all models.
        """
        return self.forget if any(item.is_text for item in self.forget) else self.forget_eval

    @property
    def judged_as_trained(self) -> bool:
        """Whether ``judged`` and F have equal questions and answers, so that one forward pass is enough for both."""
        return self.judged is self.forget or _asked(self.judged) == _asked(self.forget)

    @property
    def content_hash(self) -> str:
        """The hash of all fields."""
        fields = asdict(self)
        if self.loss_examples is None:
            del fields["loss_examples"]  # keeps the hash equal to that of versions without this field
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()

    def with_loss_examples(self, most: int) -> UnlearningData:
        """Return a copy that measures retain losses on ``most`` items, or the data if retain_eval is not larger."""
        return self if len(self.retain_eval) <= most else replace(self, loss_examples=most)

    def retain_task(self) -> UnlearningData:
        """Return a copy for training the retain model, with ``retain`` as ``full`` and ``retain_eval`` as
        ``forget``."""
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
    """Keep at most ``limit`` retain examples. An author's ``per_author`` questions are either all kept or all dropped.

    If ``limit`` is None, all retain examples are kept. Dropped examples are also removed from ``full`` and
    ``retain_eval``.

    Raises:
        DataError: ``limit`` is less than the number of questions per author.
    """
    if limit is None:
        return data
    kept = limit // per_author * per_author
    if kept == 0:
        raise DataError(
            f"--limit {limit} is less than one author: this data set has {per_author} questions per author, so the "
            f"limit must be at least {per_author}"
        )
    retain = data.retain[:kept]
    known = {example.question for example in retain}
    return replace(
        data,
        retain=retain,
        full=(*retain, *data.forget),
        retain_eval=tuple(example for example in data.retain_eval if example.question in known),
    )
