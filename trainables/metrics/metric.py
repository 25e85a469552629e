"""The definition of a metric.

To add metrics, define ``METRICS = (Metric(...),)`` in a module of this package. The module must import numpy inside
functions, because ``--help`` imports all modules of this package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from trainables.data import TaskData
    from trainables.data.examples import Example

Array: TypeAlias = "NDArray[np.float64]"
"""One value per item, ``(n,)``."""

LANGUAGE, VISION = "language", "vision"
_KINDS = {LANGUAGE: "a language model", VISION: "images"}
"""The model or data that the metrics of each modality need, in words."""

TOFU = "Maini et al., TOFU, COLM 2024 (arXiv:2401.06121)"
MUSE = "Shi et al., MUSE, ICLR 2025 (arXiv:2407.06460)"
CARLINI = "Carlini et al., Extracting Training Data from Large Language Models, USENIX Security 2021 (arXiv:2012.07805)"


class Cost(StrEnum):
    """The cost of a metric, in passes over an evaluation set."""

    NONE = "none: from the pass for the losses"
    WEIGHTS = "none: from the weights, without a forward pass"
    FORWARD = "one forward pass"
    CHOICES = "one forward pass per paraphrased or perturbed answer"
    GENERATION = "greedy generation"
    ALL = "forward passes, also for wrong answers, and greedy generation, on all four sets"
    ATTACK = "that of the attack (see 'list attacks')"
    TASK = "that of the task"


@dataclass(frozen=True, slots=True)
class Need:
    """A requirement of a metric.

    ``is_met(data, retain_model)`` returns whether the requirement is met. ``retain_model`` is whether a retain model
    exists or can be trained.
    """

    description: str
    is_met: Callable[[Any, bool], bool]


def has_choices(example: Example) -> bool:
    return bool(example.paraphrased_answer and example.perturbed_answers)


def _any_choices(examples: Iterable[Example]) -> bool:
    return any(has_choices(example) for example in examples)


EXTRA_SETS = ("real_authors", "world_facts")
QUESTIONS = Need(
    "questions with answers (not plain texts)",
    lambda data, retain_model: not any(item.is_text for item in (*data.forget_eval, *data.retain_eval)),
)
FORGET_CHOICES = Need(
    "paraphrased and perturbed answers of the forget set", lambda data, retain_model: _any_choices(data.forget_eval)
)
RETAIN_CHOICES = Need(
    "paraphrased and perturbed answers of the retain set", lambda data, retain_model: _any_choices(data.retain_eval)
)
FURTHER_CHOICES = Need(
    f"the sets {' and '.join(EXTRA_SETS)}",
    lambda data, retain_model: all(_any_choices(data.extra_eval.get(set_name, ())) for set_name in EXTRA_SETS),
)
HOLDOUT = Need("a holdout set", lambda data, retain_model: len(data.holdout) > 0)
KNOWMEM = Need(
    "questions about the forget set's content (MUSE)", lambda data, retain_model: "knowmem_forget" in data.prompted
)
RETAIN_MODEL = Need(
    "a retain model (given with --retain-model DIR if none can be trained)", lambda data, retain_model: retain_model
)


TARGET = "the target, which is known only in a sweep or a run"
"""The requirement of a metric that compares the model with the target, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric in the registry.

    Attributes:
        label: the name on the axis of a plot, without the unit.
        unit: the unit on the axis. ``{item}`` stands for token or image.
        direction: ``max`` if higher values are better, ``min`` if lower values are better; None if ``ideal`` is set.
        ideal: the best value, if it lies between the bounds. A search minimises the distance from this value.
        knows: for a metric with an ``ideal``, on which side of it a model is that knows the forget set: ``max`` if such
            a model has higher values, ``min`` if it has lower values; None if this is unknown.
        low, high: the bounds. A ``high`` of None stands for the loss of a uniform guess, ``ln|V|``.
        of: whether the metric measures the model on the forget set or on the retain set; None if on neither.
        primary: whether the display and the report show the metric beside the losses.
        threshold: the criterion for a good model. ``{"below": x}`` requires a value below x. ``{"share": s}`` requires
            a value of at least s times the target's value, and ``{"below_share": s}`` a value below s times the
            target's value.
        fluency: whether the metric measures repetition in answers.
        usable: the metric's part in the criterion ``usable``, which is described in
            :mod:`analysis.frontier.criterion`. ``share`` is a bound as a share of the target's value. ``of`` is the
            metric whose target's value is used instead. With ``preferred``, a model that misses the bound is chosen
            only if all others miss it, too. With ``tie_breaker``, the smallest value decides between equal models.
            ``kind`` is the kind of answers to forget questions that the metric counts.
        loss: whether the metric is one of the losses, which are measured at each evaluation of a run.
        descriptive: whether the metric describes how a model differs from the target, and not how good it is. The
            recommendation compares models by such a metric only if it is an objective.
        each_evaluation: whether a run measures the metric at each evaluation of the losses, if it is requested. Use it
            only for metrics that need no forward pass of their own.
        sets: the metric sets that contain the metric, except ``all``.
        needs_target: whether the metric compares the model with the target.
        measure: function from the :class:`~trainables.scoring.language.ModelScores` of a language model, or from the
            :class:`~trainables.scoring.classification.ImageScores` of a classifier, to the metric's value.
        optimised_as: the name of another metric that a search optimises instead of this metric; None if there is none.
        after_search: whether a sweep measures the metric only on stored models, after the search, and not at the end of
            each trial. As an objective, it is measured at the end of each trial, too.
        attack: the name of the attack that measures the metric; "" if the metric needs no attack.
        attacked: for a metric of an attack, the name of the metric that is measured after the attack; "" if the value
            has no counterpart without the attack.
    """

    name: str
    label: str
    unit: str | None = None
    direction: Literal["max", "min"] | None = None
    ideal: float | None = None
    knows: Literal["max", "min"] | None = None
    low: float = 0.0
    high: float | None = 1.0
    of: Literal["forget", "retain"] | None = None
    primary: bool = False
    threshold: Mapping[Literal["below", "share", "below_share"], float] | None = None
    fluency: bool = False
    usable: Mapping[Literal["share", "of", "preferred", "tie_breaker", "kind"], float | str | bool] | None = None
    loss: bool = False
    descriptive: bool = False
    each_evaluation: bool = False
    sets: tuple[str, ...] = ()
    modalities: tuple[str, ...] = (LANGUAGE,)
    needs: tuple[Need, ...] = ()
    needs_target: bool = False
    cost: Cost
    formula: str
    citation: str
    measure: Callable[[Any], float]
    optimised_as: str | None = None
    after_search: bool = False
    attack: str = ""
    attacked: str = ""

    def __post_init__(self) -> None:
        # Plug-ins are not type-checked, and an error in the report would be raised only after the sweep.
        has_only_direction = self.direction in ("max", "min") and self.ideal is None
        has_only_ideal = self.direction is None and self.ideal is not None
        if not has_only_direction and not has_only_ideal:
            raise ValueError(f"metric {self.name}: give either a direction (max or min) or the ideal value")
        if self.knows not in ("max", "min", None) or (self.knows is not None and self.ideal is None):
            raise ValueError(f"metric {self.name}: knows must be max or min, and needs an ideal value")
        if self.of not in ("forget", "retain", None):
            raise ValueError(f"metric {self.name}: of must be forget, retain or None, got {self.of!r}")
        if not isinstance(self.cost, Cost):
            raise ValueError(f"metric {self.name}: cost must be a Cost, such as Cost.FORWARD, got {self.cost!r}")
        if self.threshold is not None and len({"below", "share", "below_share"} & set(self.threshold)) != 1:
            keys = "'below', 'share' and 'below_share'"
            raise ValueError(f"metric {self.name}: the threshold needs exactly one of the keys {keys}")

    @property
    def is_form(self) -> bool:
        """Whether the metric describes the form of the answers, such as loops, and not what they tell."""
        return self.fluency or "kind" in (self.usable or {})

    @property
    def better(self) -> str:
        """A text that says which values are better: ``higher``, ``lower``, or ``0.5 is ideal``."""
        if self.direction is None:
            return f"{self.ideal:g} is ideal"
        return {"max": "higher", "min": "lower"}[self.direction]

    @property
    def is_on_stored_models(self) -> bool:
        """Whether a sweep measures the metric only on stored models, unless it is an objective."""
        return self.after_search or bool(self.attack)

    @property
    def comes_with_losses(self) -> bool:
        """Whether every evaluation of the losses also gives this metric, if it is requested."""
        return self.loss or self.each_evaluation

    @property
    def optimised(self) -> str:
        """The name of the metric that a search optimises if this metric is given as an objective."""
        if self.optimised_as:
            return self.optimised_as
        return self.name if self.ideal is None else f"{self.name}_distance"

    @property
    def kind(self) -> str:
        """The kind of model or data that the metric needs, in words; empty if the metric applies to all kinds."""
        return "" if len(self.modalities) == len(_KINDS) else _KINDS[self.modalities[0]]

    def unmet_needs(self, data: TaskData, *, retain_model: bool, target: bool = True) -> str:
        """Return the metric's requirements that are not met, in words; empty if the metric can be measured.

        ``target`` is whether the evaluated model can be compared with the target.
        """
        if data.modality not in self.modalities:
            return self.kind
        unmet = [need.description for need in self.needs if not need.is_met(data, retain_model)]
        if self.needs_target and not target:
            unmet.append(TARGET)
        return " and ".join(unmet)

    def distance(self) -> Metric:
        """Return a metric whose value is the distance between this metric's value and the ideal value."""
        ideal = self.ideal
        assert ideal is not None
        return replace(
            self,
            name=self.optimised,
            label=f"{self.label}, distance from {ideal:g}",
            direction="min",
            ideal=None,
            knows=None,
            low=0.0,
            high=ideal - self.low,
            primary=False,
            threshold=None,
            usable=None,
            sets=(),
            formula=f"|{self.name} - {ideal:g}|" if ideal else f"|{self.name}|",
            measure=lambda scores: abs(self.measure(scores) - ideal),
        )

    def bounds(self, random_guess: float) -> tuple[float, float]:
        """Return the lower and the upper bound. ``random_guess`` is the loss of a uniform guess."""
        return self.low, random_guess if self.high is None else self.high

    def axis(self, item: str) -> str:
        """Return the axis label with the unit. ``item`` is ``token`` or ``image``."""
        return self.label if self.unit is None else f"{self.label} ({self.unit.format(item=item)})"
