"""The objectives of a sweep, and the constraints on metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from search_spaces.common.objective import Objective
from search_spaces.constraint import Constraint, ConstraintError, parse_constraint
from sweeper.settings.names import DEFAULT_OBJECTIVES as DEFAULT_OBJECTIVES
from trainables.metrics.registry import DEFAULT_SET, LOSS_METRICS, METRICS, expected_metric, metrics_in
from trainables.modality import dataset_modality
from trainables.spec import TrialSpec


class ObjectiveError(ValueError):
    """The objectives are invalid."""


def parse_objectives(text: str) -> tuple[Objective, ...]:
    """Parse a text such as ``verbmem:min,utility:max``. The bounds are unknown until the sweep has its target.

    The column of ``forget_loss`` is ``forget_loss_capped``, the loss capped at the loss of a random guess. The column
    of a metric with an ideal value is the distance from the ideal value.

    Raises:
        ObjectiveError: an objective is invalid or named twice, or there are fewer than two objectives.
    """
    objectives = []
    for part in text.split(","):
        name, _, direction = part.strip().partition(":")
        if name not in METRICS:
            raise ObjectiveError(f"unknown objective '{name}': {expected_metric(name, METRICS)}")
        if direction not in ("min", "max"):
            raise ObjectiveError(f"objective '{part.strip()}' needs a direction: {name}:min or {name}:max")
        if direction == "max" and METRICS[name].ideal is not None:
            raise ObjectiveError(
                f"objective '{part.strip()}': {METRICS[name].better} for {name}, so only the distance from that value "
                f"can be optimised: {name}:min"
            )
        objectives.append(Objective(name=name, column=METRICS[name].optimised, direction=direction))
    if len(objectives) < 2:
        raise ObjectiveError(f"a Pareto search needs at least two objectives, got '{text}'")
    if len({item.column for item in objectives}) < len(objectives):
        raise ObjectiveError(f"an objective is named twice in '{text}'")
    return tuple(objectives)


def objective_set(text: str) -> frozenset[str]:
    """Return the objectives in a text as a set, so that their order does not matter."""
    return frozenset(part.strip() for part in text.split(","))


def with_bounds(objectives: Sequence[Objective], random_guess: float, *, unit: str = "token") -> tuple[Objective, ...]:
    """Return the objectives with their bounds and axis labels.

    ``random_guess`` is the upper bound of the losses. A loss is averaged over each ``unit``: token or image.
    """
    bounded = []
    for item in objectives:
        metric = METRICS[item.column]
        low, high = metric.bounds(random_guess)
        bounded.append(replace(item, low=low, high=high, label=metric.axis(unit)))
    return tuple(bounded)


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
        expected = expected_metric(constraint.name, METRICS)
        raise ConstraintError(f"--constraint {text}: unknown metric '{constraint.name}': {expected}")
    return constraint


def constraint_problems(constraints: Sequence[str], base: TrialSpec, attacks: Sequence[str] = ()) -> list[str]:
    """Return an error message for each threshold that is invalid or whose metric is not measured.

    ``attacks`` are the attacks on stored models.
    """
    problems = []
    modality = dataset_modality(base.dataset)
    metrics = base.metrics or ("default",)
    measured = metrics_in([*metrics, *attacks]).union(LOSS_METRICS)
    for text in constraints:
        try:
            constraint = parse_metric_constraint(text)
        except ConstraintError as error:
            problems.append(str(error))
            continue
        if modality.name not in METRICS[constraint.name].modalities:
            problems.append(f"--constraint {text}: {constraint.name} is not measured for {modality.models}")
        elif constraint.name not in measured and (attack := METRICS[constraint.name].attack):
            names = ",".join((*attacks, attack))
            problems.append(f"--constraint {text}: {constraint.name} is measured by an attack: add --attacks {names}")
        elif constraint.name not in measured:
            names = ",".join((*metrics, constraint.name))
            problems.append(f"--constraint {text}: {constraint.name} is not measured: add it with --metrics {names}")
    return problems
