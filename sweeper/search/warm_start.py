"""Start a search from the results of a previous sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from analysis.frontier.frontier import contributions
from analysis.tables.trade_off import costs_of
from search_spaces.common.front import Criteria, Point
from search_spaces.common.messages import counted
from search_spaces.common.values import Value, same
from sweeper.search.archive import ParetoArchive
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.store.event_log import read_state
from sweeper.store.events import Phase, Prior
from sweeper.store.folder import read_settings
from trainables.methods import option_names
from trainables.run.reports import Status
from trainables.spec import FIELDS

_SEARCHED = ("method", "lr", "auto_lr", "seed")


@dataclass(frozen=True, slots=True)
class WarmStart:
    """The trials of a previous sweep that a new sweep uses.

    Attributes:
        priors: the trials with comparable results, from which the sampler learns.
        points: the configurations to try first, as Optuna parameters.
        finished: the number of finished trials in the previous sweep.
        outside: the number of finished trials that are outside the search space of the new sweep.
        differences: descriptions of the settings that neither sweep searches and whose values differ.
    """

    priors: tuple[Prior, ...]
    points: tuple[Mapping[str, Value], ...]
    finished: int
    outside: int
    differences: tuple[str, ...]


def warm_start(
    out: Path,
    settings: SweepSettings,
    criteria: Criteria,
    *,
    target_key: str,
    max_points: int,
) -> WarmStart:
    """Return the priors and points from the previous sweep in the folder ``out``.

    A finished trial becomes a prior if its configuration has the same spec hash in both sweeps. Of the other finished
    trials, at most ``max_points`` configurations on their Pareto front become points to try first.

    Raises:
        UsageError: the folder has no sweep.
    """
    previous = read_settings(out)
    archive = ParetoArchive(criteria, every_epoch=previous.every_epoch)
    space = settings.space
    searched = (*_SEARCHED, *option_names())
    fixed = {name: value for name, value in space.constants.items() if name in searched}
    priors: list[Prior] = []
    others: list[tuple[Mapping[str, Value], Point]] = []
    outside = 0
    trials = read_state(out).ended_of(Phase.SEARCH)
    finished = [trial for trial in trials if trial.outcome is not None and trial.outcome.status is Status.FINISHED]
    for trial in finished:
        result = archive.add(trial.row(), [report.values for report in trial.candidates()])
        if result is None:
            continue
        values = trial.settings
        has_fixed_values = all(same(value, values[name]) for name, value in fixed.items() if name in values)
        try:
            if not has_fixed_values:
                raise ValueError("the trial differs in a setting that is fixed in the new space")
            config = space.configuration({**values, **space.constants})
            spec = settings.make_spec(config | {"seed": values["seed"]}, target_key=target_key)
        except ValueError:
            outside += 1
            continue
        if spec.spec_hash == values["spec_hash"]:
            priors.append(Prior(config, result.values, result.violations, f"{out.name}/{trial.id}"))
        else:
            others.append((space.params_of(config), result))
    return WarmStart(
        priors=tuple(priors),
        points=tuple(_front(others, criteria)[:max_points]),
        finished=len(finished),
        outside=outside,
        differences=_differences(previous, settings),
    )


def format_warm_start(result: WarmStart, folder: Path) -> str:
    clauses = []
    if result.priors or not result.points:
        clauses.append(counted(len(result.priors), "comparable trial"))
    if result.points:
        differences = "; ".join(result.differences) or "another target"
        points = counted(len(result.points), "configuration")
        cause = f"because their results are not comparable ({differences})"
        clauses.append(f"{points} from that sweep's frontier will run first, {cause}")
    if result.outside:
        verb = "is" if result.outside == 1 else "are"
        clauses.append(f"{counted(result.outside, 'trial')} {verb} outside this search space")
    return f"warm start from {folder} with {counted(result.finished, 'finished trial')}: {'; '.join(clauses)}"


def _front(candidates: Sequence[tuple[Mapping[str, Value], Point]], criteria: Criteria) -> list[Mapping[str, Value]]:
    """Return the configurations on the Pareto front, ordered by decreasing contribution to the hypervolume."""
    points = [point for _, point in candidates]
    front = np.flatnonzero(criteria.on_front(points, constrained=True))
    if not len(front):
        return []
    costs = costs_of(np.asarray([points[index].values for index in front]), criteria.objectives)
    order = front[np.argsort(-contributions(costs), kind="stable")]
    distinct: list[Mapping[str, Value]] = []
    for index in order:
        params, _ = candidates[index]
        if params not in distinct:
            distinct.append(params)
    return distinct


def _differences(previous: SweepSettings, settings: SweepSettings) -> tuple[str, ...]:
    parameters = [*previous.space.parameters, *settings.space.parameters]
    searched = {*_SEARCHED, *(parameter.name for parameter in parameters)}
    previous_values, current_values = _field_values(previous), _field_values(settings)
    return tuple(
        f"{name} {previous_values[name]} in that sweep, {current_values[name]} in this sweep"
        for name, field in FIELDS.items()
        if field.decides and name not in searched and previous_values[name] != current_values[name]
    )


def _field_values(settings: SweepSettings) -> dict[str, object]:
    """Return the value of each field in trials that do not search the field."""
    constants = {name: value for name, value in settings.space.constants.items() if name in FIELDS}
    return {**settings.base.values(), **constants}
