"""The record of a metric: its name, direction, needs, cost and computation.

A module of this package with ``METRICS = (Metric(...),)`` adds its metrics. Columns, ``--metrics``, ``--objectives``,
``list metrics`` and sweep.json derive from the record, so nothing else is edited. numpy is imported inside functions,
because ``--help`` imports this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from trainables.data import TaskData
    from trainables.data.examples import Example

LANGUAGE, VISION = "language", "vision"
_KINDS = {LANGUAGE: "a language model", VISION: "images"}
"""The modalities of metrics, and the models or data they apply to."""

TOFU = "Maini et al., TOFU, COLM 2024 (arXiv:2401.06121)"
MUSE = "Shi et al., MUSE, ICLR 2025 (arXiv:2407.06460)"
CARLINI = "Carlini et al., Extracting Training Data from Large Language Models, USENIX Security 2021 (arXiv:2012.07805)"


class Cost(StrEnum):
    """The cost of a metric, in passes over an evaluation set."""

    FORWARD = "one forward pass"
    CHOICES = "one forward pass per paraphrased or perturbed answer"
    GENERATION = "greedy generation"
    ALL = "forward passes, choices and generation on all four sets"


@dataclass(frozen=True, slots=True)
class Need:
    """A requirement of a metric on the data or on a retain model; ``met`` takes (data, whether a retain model exists).
    A requirement of a metric on the data or on a retain model; ``met`` takes (data, whether a retain model exists)."""

    words: str
    met: Callable[[Any, bool], bool]


def has_choices(example: Example) -> bool:
    """Return whether the example has a truth ratio."""
    return bool(example.paraphrased_answer and example.perturbed_answers)


EXTRA_SETS = ("real_authors", "world_facts")
FORGET_CHOICES = Need(
    "paraphrased and perturbed answers of the forget set",
    lambda data, retain_model: any(map(has_choices, data.forget_eval)),
)
RETAIN_CHOICES = Need(
    "paraphrased and perturbed answers of the retain set",
    lambda data, retain_model: any(map(has_choices, data.retain_eval)),
)
FURTHER_CHOICES = Need(
    f"the sets {' and '.join(EXTRA_SETS)}",
    lambda data, retain_model: all(any(map(has_choices, data.extra_eval.get(part, ()))) for part in EXTRA_SETS),
)
HOLDOUT = Need("a holdout set", lambda data, retain_model: len(data.holdout) > 0)
KNOWMEM = Need(
    "questions about the forget set's content (MUSE)", lambda data, retain_model: "knowmem_forget" in data.prompted
)
RETAIN_MODEL = Need(
    "a retain model (--retain-model DIR if it cannot be trained)", lambda data, retain_model: retain_model
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric.

    Attributes:
        label: the name on an axis, without the unit.
        unit: for a loss with the placeholder ``{item}``: token or image.
        direction: max or min is better; None if an ``ideal`` value between the bounds is best. The distance from the
            ideal is then a separate metric, ``NAME_distance``, which a search optimises.
        low, high: the bounds; a ``high`` of None is the loss of a random guess, ``ln|V|``.
        of: the set that the metric describes.
        primary: whether it belongs to the pair that is shown first, after the losses.
        threshold: when forgetting or retaining counts as a success: ``below`` a value, or at least a ``share`` of the
            target's value before unlearning.
        fluency: whether it measures answers that repeat themselves; a sweep's answer depends on it (docs/choosing.md).
        loss: whether it is measured after every epoch, from :class:`~trainables.metrics.losses.SetLosses`.
        sets: the names of its sets of metrics, besides ``all``.
        measure: computes it from the :class:`~trainables.scoring.model_scores.ModelScores` of a language model, or the
            :class:`~trainables.scoring.classification.ImageScores` of a classifier.
        optimised_as: the metric that a search optimises instead, if any.
    """

    name: str
    label: str
    unit: str | None = None
    direction: Literal["max", "min"] | None = None
    ideal: float | None = None
    low: float = 0.0
    high: float | None = 1.0
    of: Literal["forget", "retain"] | None = None
    primary: bool = False
    threshold: Mapping[Literal["below", "share"], float] | None = None
    fluency: bool = False
    loss: bool = False
    sets: tuple[str, ...] = ()
    modalities: tuple[str, ...] = (LANGUAGE,)
    needs: tuple[Need, ...] = ()
    cost: Cost
    formula: str
    citation: str
    measure: Callable[[Any], float]
    optimised_as: str | None = None

    def __post_init__(self) -> None:
        if (self.direction is None) == (self.ideal is None):
            raise ValueError(f"metric {self.name}: give either a direction, max or min, or the ideal value")

    @property
    def better(self) -> str:
        """``higher``, ``lower``, or the ideal value."""
        if self.direction is None:
            return f"{self.ideal:g} is ideal"
        return {"max": "higher", "min": "lower"}[self.direction]

    @property
    def optimised(self) -> str:
        """The name of the metric that a search optimises for this one."""
        return self.optimised_as or (self.name if self.ideal is None else f"{self.name}_distance")

    @property
    def kind(self) -> str:
        """The models or data that it applies to; empty if it applies to all."""
        return "" if len(self.modalities) == len(_KINDS) else _KINDS[self.modalities[0]]

    def lacks(self, data: TaskData, *, retain_model: bool) -> str:
        """Return what the metric needs but the data, or a missing retain model, cannot give; empty if nothing is
        missing."""
        if data.modality not in self.modalities:
            return self.kind
        return " and ".join(need.words for need in self.needs if not need.met(data, retain_model))

    def distance(self) -> Metric:
        """Return the metric of the distance from the ideal, capped at the distance of the nearer bound."""
        ideal = self.ideal
        assert ideal is not None
        return replace(
            self,
            name=self.optimised,
            label=f"{self.label}, distance from {ideal:g}",
            direction="min",
            ideal=None,
            low=0.0,
            high=ideal - self.low,
            primary=False,
            threshold=None,
            sets=(),
            formula=f"|{self.name} - {ideal:g}|" if ideal else f"|{self.name}|",
            measure=lambda scores: abs(self.measure(scores) - ideal),
        )

    def bounds(self, random_guess: float) -> tuple[float, float]:
        """Return the bounds; ``random_guess`` is the loss of a uniform guess."""
        return self.low, random_guess if self.high is None else self.high

    def axis(self, item: str) -> str:
        """Return the label with its unit; ``item`` is what a loss is averaged over, token or image."""
        return self.label if self.unit is None else f"{self.label} ({self.unit.format(item=item)})"
