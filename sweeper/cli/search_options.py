"""What a sweep's search is told beside its sampler: constraints, points to try first, earlier sweeps, when to end."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from search_spaces.constraint import Constraint, ConstraintError, contradictions, parse_constraint
from search_spaces.messages import counted, expected_one_of
from search_spaces.points import Point, PointError, params_of_point, read_points
from search_spaces.space import Space
from sweeper.search.halving import rungs
from sweeper.search.samplers import LEARNING
from sweeper.search.schedulers import NONE
from sweeper.search.stopping import stopping_problems
from sweeper.settings.objectives import DEFAULT_OBJECTIVES, objective_set
from sweeper.store.folder import SweepError, check_tables, read_settings
from trainables.metrics.registry import LOSS_METRICS, METRICS, SETS
from trainables.modality import dataset_modality
from trainables.spec import TrialSpec


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """Fields of a sweep's settings, the trials an epoch budget is good for, and all that is wrong."""

    settings: dict[str, Any]
    trials: int | None = None
    problems: list[str] = field(default_factory=list)


def search_options(
    given: Mapping[str, Any],
    *,
    base: TrialSpec,
    space: Space | None,
    trials: int | None,
    scheduling: Mapping[str, Any],
) -> SearchOptions:
    """Read and check them; ``space`` is None where it could not be read, so that points cannot be placed in it.

    ``scheduling`` has the scheduler's settings.
    """
    problems = constraint_problems(given.get("constraint") or (), base)
    points = _points(given, space, trials, problems)
    budget = given.get("epoch_budget")
    problems += stopping_problems(until=given.get("until"), epoch_budget=budget)
    for name in ("warm_start", "reuse"):
        problems += _folder_problems(given, name)
    settings = {
        "constraints": tuple(given.get("constraint") or ()),
        "enqueue": tuple(points),
        "warm_start": _absolute(given.get("warm_start")),
        "reuse": _absolute(given.get("reuse")),
        "epoch_budget": budget,
        "until": given.get("until"),
    }
    enough = (
        math.ceil(budget / _epochs_per_trial(scheduling, base.epochs))
        if budget and budget > 0 and base.epochs > 0
        else None
    )
    return SearchOptions(settings, enough, problems)


def _epochs_per_trial(scheduling: Mapping[str, Any], epochs: int) -> float:
    """How many epochs a trial takes at least, on average: of a rung one in ``reduction``, or more, go on."""
    grace, reduction = scheduling["grace"], scheduling["reduction"]
    if scheduling["scheduler"] == NONE or grace < 1 or reduction < 2:
        return epochs
    ends = [0, *rungs(epochs=epochs, grace=grace, reduction=reduction), epochs]
    return float(sum((end - begin) / reduction**index for index, (begin, end) in enumerate(itertools.pairwise(ends))))


def known_constraint(text: str) -> Constraint:
    """``utility>=0.7`` with a metric there is.

    Raises:
        ConstraintError: it cannot be read, or there is no such metric.
    """
    constraint = parse_constraint(text)
    if constraint.name not in METRICS:
        known = expected_one_of(constraint.name, METRICS)
        raise ConstraintError(f"constraint {text}: unknown metric '{constraint.name}': {known}")
    return constraint


def constraint_problems(given: Sequence[str], base: TrialSpec) -> list[str]:
    """A plain sentence for each threshold that cannot be read, or whose metric no trial of the sweep measures."""
    found, read = [], []
    modality = dataset_modality(base.dataset)
    chosen = base.metrics or ("default",)
    measured = {*LOSS_METRICS, *(metric for name in chosen for metric in SETS.get(name, (name,)))}
    for text in given:
        try:
            constraint = known_constraint(text)
        except ConstraintError as error:
            found.append(str(error))
            continue
        read.append(constraint)
        if modality.name not in METRICS[constraint.name].modalities:
            found.append(f"constraint {text}: {constraint.name} is not measured for {modality.models}")
        elif constraint.name not in measured:
            wanted = ",".join((*chosen, constraint.name))
            found.append(f"constraint {text}: {constraint.name} is not measured: add it with --metrics {wanted}")
    return found + contradictions(read)


def _points(given: Mapping[str, Any], space: Space | None, trials: int | None, problems: list[str]) -> list[Point]:
    points: list[Point] = []
    for text in given.get("enqueue") or ():
        try:
            points += (found := read_points(text))
            for point in found:
                if space is not None:
                    params_of_point(space, point)
        except PointError as error:
            problems.append(f"--enqueue {text}: {error}")
    if points and given["sampler"] == "grid":
        problems.append("--enqueue: a grid search visits every point of its space anyway; use another sampler")
    runs = len(points) * (given["seeds"] or 1)
    if trials is not None and runs > trials > 0:
        told = f"{counted(len(points), 'point')}, {counted(runs, 'run')} with all seeds"
        problems.append(f"--enqueue has {told}: more than --trials {trials}")
    return points


def _folder_problems(given: Mapping[str, Any], name: str) -> list[str]:
    """Why earlier sweeps cannot be used."""
    flag, folders, found = f"--{name.replace('_', '-')}", given.get(name) or (), []
    objectives = given["objectives"] or DEFAULT_OBJECTIVES
    if folders and name == "warm_start" and given["sampler"] not in LEARNING:
        return [f"{flag}: the sampler {given['sampler']} does not learn from trials; use one of {', '.join(LEARNING)}"]
    for folder in folders:
        try:
            earlier = read_settings(Path(folder))
            check_tables(Path(folder))
        except SweepError as error:
            found.append(f"{flag} {folder}: {error}")
            continue
        if name == "warm_start" and objective_set(earlier.objectives) != objective_set(objectives):
            found.append(
                f"{flag} {folder}: that sweep searched {earlier.objectives}, this one {objectives}: they must be the "
                "same, with the same directions"
            )
    return found


def _absolute(folders: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(str(Path(folder).resolve()) for folder in folders or ())
