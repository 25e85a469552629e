"""What the data of an unlearning problem are, before any tokenizer sees them."""

from __future__ import annotations

from dataclasses import dataclass, field


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
