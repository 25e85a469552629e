"""The definition of an attack.

To add an attack, define ``ATTACK = Attack(...)`` in a module of this package. The module must import torch and numpy
inside functions, because ``--help`` imports all modules of this package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from trainables.metrics.metric import Cost, Metric, Need

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from trainables.scoring.base import Scores

FACTS = ("forget_fact_recall", "verbmem")
"""The metrics of what a language model tells about the forget set."""
KEPT = ("retain_fact_recall", "utility")
"""The metrics of what a language model tells about the retain set."""
ACCURACIES = ("forget_accuracy", "retain_accuracy", "test_accuracy")
"""The metrics of a classifier."""
_SHORT = {"forget_fact_recall": "fact_recall"}
"""The names of metrics in the columns of attacks, if they differ from the names of the metrics."""


def column(metric: str, ending: str) -> str:
    """Return the column for a metric after an attack, such as ``fact_recall_after_nf4``."""
    return f"{_SHORT.get(metric, metric)}_after_{ending}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How often an attack scores and generates the answers of each evaluation set, to estimate its duration.

    Training on an answer once counts as scoring it three times. Generating an answer counts twice if the answers of a
    trial's last evaluation are mostly found faster, because they agree with the reference answers.

    Attributes:
        per_sample: whether all counts are multiplied by ``--leak-samples``.
    """

    forget_losses: float = 0.0
    retain_losses: float = 0.0
    forget_answers: float = 0.0
    retain_answers: float = 0.0
    per_sample: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One attack in the registry. Attacks measure stored candidates, like the metrics of epochs on the frontier.

    Attributes:
        formula: what the attack does.
        cost: the cost of the attack, in passes over an evaluation set or in training steps.
        effort: the work of the attack, from which its duration is estimated.
        endings: maps the ending of the attack's columns, such as ``nf4``, to its words, such as ``after rounding``.
        attacked: the metrics that are measured after the attack. Each has one column for each ending.
        own: the attack's further metrics, without a counterpart before the attack. Create them with :func:`own_metric`.
        needs: the requirements of the attack.
        options: the options of the commands that change the attack, separated by a comma and a space.
        sets: the named sets of attacks that contain the attack, except ``all``.
        run: function from the :class:`~trainables.scoring.base.Scores` of a model to the values of the metrics, by
            column. It must not change the model (see :func:`~trainables.attacks.model.editable`). It may leave out
            columns that cannot be measured.
    """

    name: str
    formula: str
    citation: str
    cost: str
    effort: Effort = Effort(forget_losses=1.0, retain_losses=1.0, forget_answers=1.0, retain_answers=1.0)
    endings: Mapping[str, str]
    attacked: tuple[str, ...] = (*FACTS, *KEPT)
    own: tuple[Metric, ...] = ()
    needs: tuple[Need, ...] = ()
    options: str = ""
    sets: tuple[str, ...] = ()
    run: Callable[[Any], Mapping[str, float]]

    @property
    def trains(self) -> bool:
        """Whether the attack trains the model, so it needs a learning rate."""
        return "--relearn-lr" in self.options

    def metrics_from(self, metrics: Mapping[str, Metric]) -> tuple[Metric, ...]:
        """Return the attack's metrics. ``metrics`` are the metrics without an attack, by name."""
        found = [
            replace(
                metrics[name],
                name=column(name, ending),
                label=f"{metrics[name].label}, {words}",
                primary=False,
                threshold=None,
                fluency=False,
                usable=None,
                each_evaluation=False,
                optimised_as=None,
                needs=(*metrics[name].needs, *self.needs),
                formula=f"{name} {words}",
                attacked=name,
            )
            for ending, words in self.endings.items()
            for name in self.attacked
        ]
        return tuple(self._own(metric) for metric in (*found, *self.own))

    def _own(self, metric: Metric) -> Metric:
        name = metric.name
        return replace(
            metric,
            sets=(),
            cost=Cost.ATTACK,
            citation=self.citation,
            attack=self.name,
            needs=tuple(dict.fromkeys((*metric.needs, *self.needs))),
            measure=lambda scores: scores.after(self).get(name, float("nan")),
        )


def own_metric(*, name: str, label: str, formula: str, **fields: Any) -> Metric:
    """Return a metric for :attr:`Attack.own`. ``fields`` are further fields of :class:`.Metric`, such as direction."""
    return Metric(
        name=name, label=label, formula=formula, cost=Cost.ATTACK, citation="", measure=lambda scores: 0.0, **fields
    )


def measured_after(
    scores: Scores, model: PreTrainedModel, ending: str, *, attacked: tuple[str, ...] = (*FACTS, *KEPT)
) -> dict[str, float]:
    """Return the values of metrics of an attacked model, by column. Metrics that the data cannot give are left out."""
    from trainables.metrics.registry import METRICS

    evaluator = scores.evaluator
    names = [name for name in attacked if not METRICS[name].unmet_needs(evaluator.data, retain_model=False)]
    after = evaluator.scores(model)
    after.generate_for(names)
    metrics = after.measure(names).metrics if names else {}
    return {column(name, ending): value for name, value in metrics.items()}
