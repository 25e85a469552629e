"""The objectives of a sweep, and the constraints on metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from search_spaces.common.messages import expected_one_of
from search_spaces.constraint import Constraint, ConstraintError, parse_constraint
from sweeper.settings.names import DEFAULT_OBJECTIVES as DEFAULT_OBJECTIVES
from trainables.metrics.registry import DEFAULT_SET, LOSS_METRICS, METRICS, SETS
from trainables.modality import dataset_modality
from trainables.spec import TrialSpec

if TYPE_CHECKING:
    from analysis.tables.trade_off import Objective as BoundedObjective


class ObjectiveError(ValueError):
    """The objectives are invalid."""


@dataclass(frozen=True, slots=True)
class Objective:
    """A metric to minimize or maximize. ``direction`` is ``min`` or ``max``."""

    name: str
    direction: str

    @property
    def column(self) -> str:
        """The column of trials.csv that a search optimises.

        For ``forget_loss``, this column contains the loss capped at the loss of a random guess. For a metric with an
        ideal value, it contains the distance from the ideal value.
        """
        return METRICS[self.name].optimised

    def to_dict(self, random_guess: float, *, unit: str = "token") -> dict[str, object]:
        """Return the objective as an entry of sweep.json, with its bounds and its axis label.

        ``random_guess`` is the upper bound of the losses. A loss is averaged over each ``unit``: token or image.
        """
        metric = METRICS[self.column]
        low, high = metric.bounds(random_guess)
        axis = {"low": low, "high": high, "label": metric.axis(unit)}
        return {"name": self.name, "column": self.column, "direction": self.direction, **axis}


def parse_objectives(text: str) -> tuple[Objective, ...]:
    """Parse a text such as ``verbmem:min,utility:max``.

    Raises:
        ObjectiveError: an objective is invalid or named twice, or there are fewer than two objectives.
    """
    objectives = []
    for part in text.split(","):
        name, _, direction = part.strip().partition(":")
        if name not in METRICS:
            raise ObjectiveError(f"unknown objective '{name}': {expected_one_of(name, METRICS)}")
        if direction not in ("min", "max"):
            raise ObjectiveError(f"objective '{part.strip()}' needs a direction: {name}:min or {name}:max")
        if direction == "max" and METRICS[name].ideal is not None:
            raise ObjectiveError(
                f"objective '{part.strip()}': {METRICS[name].better} for {name}, so only the distance from that value "
                f"can be optimised: {name}:min"
            )
        objectives.append(Objective(name, direction))
    if len(objectives) < 2:
        raise ObjectiveError(f"a Pareto search needs at least two objectives, got '{text}'")
    if len({item.column for item in objectives}) < len(objectives):
        raise ObjectiveError(f"an objective is named twice in '{text}'")
    return tuple(objectives)


def objective_set(text: str) -> frozenset[str]:
    """Return the objectives in a text as a set, so that their order does not matter."""
    return frozenset(part.strip() for part in text.split(","))


def with_bounds(
    objectives: Sequence[Objective], random_guess: float, *, unit: str = "token"
) -> tuple[BoundedObjective, ...]:
    """Convert the objectives to the class in :mod:`analysis`. For the arguments, see :meth:`Objective.to_dict`."""
    from analysis.tables.trade_off import Objective as BoundedObjective

    return tuple(BoundedObjective.from_dict(item.to_dict(random_guess, unit=unit)) for item in objectives)


def objective_problems(objectives: Sequence[Objective], dataset: str) -> list[str]:
    """Return an error message for each objective that cannot be measured on models trained on ``dataset``."""
    modality = dataset_modality(dataset)
    measured = [name for name, metric in METRICS.items() if modality.name in metric.modalities]
    return [
        f"objective {item.name} is not measured for {modality.models}: expected one of {', '.join(measured)}"
        for item in objectives
        if item.name not in measured
    ]


def with_objectives(metrics: tuple[str, ...], objectives: tuple[Objective, ...]) -> tuple[str, ...]:
    """Return ``metrics`` and the metrics that the objectives need.

    An empty ``metrics`` stands for the default set of metrics. It stays empty if this set contains all metrics that the
    objectives need.
    """
    measured_objectives = [item for item in objectives if item.name not in LOSS_METRICS]
    # A distance is reported together with the value from which it is computed.
    names = [name for item in measured_objectives for name in (item.name, item.column)]
    if metrics:
        return tuple(dict.fromkeys([*metrics, *names]))
    extra_names = dict.fromkeys(name for name in names if name not in DEFAULT_SET)
    return ("default", *extra_names) if extra_names else ()


def parse_metric_constraint(text: str) -> Constraint:
    """Parse a threshold such as ``utility>=0.7``, and check that its metric exists.

    Raises:
        ConstraintError: the threshold cannot be parsed, or its metric does not exist.
    """
    constraint = parse_constraint(text)
    if constraint.name not in METRICS:
        expected = expected_one_of(constraint.name, METRICS)
        raise ConstraintError(f"--constraint {text}: unknown metric '{constraint.name}': {expected}")
    return constraint


def constraint_problems(constraints: Sequence[str], base: TrialSpec) -> list[str]:
    """Return an error message for each threshold that is invalid or whose metric is not measured."""
    problems = []
    modality = dataset_modality(base.dataset)
    metrics = base.metrics or ("default",)
    measured = set(LOSS_METRICS)
    for name in metrics:
        measured.update(SETS.get(name, (name,)))
    for text in constraints:
        try:
            constraint = parse_metric_constraint(text)
        except ConstraintError as error:
            problems.append(str(error))
            continue
        if modality.name not in METRICS[constraint.name].modalities:
            problems.append(f"--constraint {text}: {constraint.name} is not measured for {modality.models}")
        elif constraint.name not in measured:
            names = ",".join((*metrics, constraint.name))
            problems.append(f"--constraint {text}: {constraint.name} is not measured: add it with --metrics {names}")
    return problems
