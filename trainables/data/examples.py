"""What the data of an unlearning problem are, before any tokenizer sees them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from trainables.data.errors import DataError


@dataclass(frozen=True, slots=True)
class Example:
    """One question with its answer, in TOFU's columns; paraphrase and perturbations are empty where not given."""

    question: str
    answer: str
    paraphrased_answer: str = ""
    perturbed_answers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UnlearningData:
    """An unlearning problem: what to forget, what to keep, and the fixed sets both are judged on.

    Attributes:
        name: the data set and split, for example ``tofu/forget10``.
        forget: the forget set F; the run trains on all of it.
        retain: the retain set R.
        full: what the target model was trained on, F and R together.
        forget_eval: the whole forget set, with paraphrased and perturbed answers.
        retain_eval: a fixed sample of the retain set, with paraphrased and perturbed answers.
        extra_eval: further named evaluation sets (TOFU's real_authors and world_facts).
        holdout: text of the same kind that no model was trained on, for membership inference.
    """

    name: str
    forget: tuple[Example, ...]
    retain: tuple[Example, ...]
    full: tuple[Example, ...]
    forget_eval: tuple[Example, ...]
    retain_eval: tuple[Example, ...]
    extra_eval: dict[str, tuple[Example, ...]] = field(default_factory=dict)
    holdout: tuple[Example, ...] = ()


def keep_retain(data: UnlearningData, limit: int | None, *, per_author: int) -> UnlearningData:
    """The data with at most ``limit`` retain examples, whole authors of ``per_author`` questions; None keeps all.

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
