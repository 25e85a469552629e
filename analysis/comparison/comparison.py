"""The paper's table: methods by metrics, without and with AutoLR, each at the configuration chosen for it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import stdev

import numpy as np
import pandas as pd

from analysis.errors import AnalysisError
from analysis.frontier.frontier import hypervolume
from analysis.study.placed_trials import PlacedTrial, PlacedTrials, placed_trials
from analysis.tables.columns import Columns, short
from analysis.tables.problems import Problem, problems_of
from analysis.tables.sources import Sources, read_source
from analysis.tables.trial_table import TrialTable, finite_cell
from analysis.words import number, policy_in_words


@dataclass(frozen=True, slots=True)
class Value:
    """Mean and standard deviation (None for one seed) of a metric over the ``seeds`` that it was measured on, and
    whether the mean meets its threshold."""

    mean: float
    deviation: float | None
    met: bool | None
    seeds: int = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """One configuration's numbers.

    Attributes:
        label: what was chosen: ``lr 1e-4, c 0.9``, or AutoLR's variant with its start; may be empty.
        seeds: finished trials behind the means; ``lost`` diverged, stopped or failed.
        values: by metric; a metric that was not measured is missing.
        success: whether every seed meets all thresholds, or none does; None where some do, and where that cannot be
            judged of all, as of lost ones.
        outcome: that in words (:func:`_outcome`).
    """

    label: str
    seeds: int
    lost: int
    values: Mapping[str, Value]
    success: bool | None = None
    outcome: str = "\u2013"


@dataclass(frozen=True, slots=True)
class MethodRow:
    """A method without and with AutoLR; None where it was not run or nothing finished."""

    method: str
    without: Entry | None
    with_auto: Entry | None


@dataclass(frozen=True, slots=True)
class ComparisonTable:
    """One model and data set: the No-unlearn model and every method; ``rule`` says how an entry was chosen."""

    model: str
    dataset: str
    metrics: tuple[str, ...]
    baseline: Entry | None
    rows: tuple[MethodRow, ...]
    rule: str = ""


def comparison_parts(paths: Sequence[Path], columns: Columns) -> list[Sources]:
    """Every source with its objectives: sweep folders, and CSV files, whose ``columns`` the sweeps may add to.

    A CSV needs a column ``method`` and one for each metric. Its configurations are ranked by the primary metrics, as
    it has no losses' bounds; so are all where the sweeps have different objectives: those bounds are the same for all.

    Raises:
        AnalysisError: a source is neither, or cannot be read.
    """
    described = columns
    for path in paths:
        if (path / "sweep.json").is_file():
            described = read_source(path, columns).sweep.columns | described
    found = [read_source(path, described, sweep=f"{i + 1}: {path.name}") for i, path in enumerate(paths)]
    found = [part if part.sweeps else _ranked_by_scores(part) for part in found]
    if len({tuple(item.column for item in part.sweep.objectives) for part in found}) > 1:
        return [_ranked_by_scores(part) for part in found]
    return found


def _ranked_by_scores(part: Sources) -> Sources:
    objectives = part.table.columns.primary_objectives(part.table.trials.columns)
    return replace(part, sweep=replace(part.sweep, objectives=objectives))


def comparison_data(parts: Sequence[Sources]) -> tuple[ComparisonTable, ...]:
    """A table for every model and data set.

    Raises:
        AnalysisError: no trial at all, or sweeps on one model and data set whose No-unlearn metrics differ: they had
            different targets.
    """
    baselines: dict[Problem, Mapping[str, float]] = {}
    for part in parts:
        own = part.sweep.baseline
        for problem in problems_of(part.table):
            known = baselines.setdefault(problem, own)
            if any(not math.isclose(known[name], own[name], rel_tol=1e-6) for name in known.keys() & own.keys()):
                raise AnalysisError(
                    f"the sweeps on {problem} have different No-unlearn models: compare them one at a time"
                )
            baselines[problem] = known or own
    placed = placed_trials([(part.table, part.sweep.objectives) for part in parts])
    if not placed.trials:
        raise AnalysisError("there is no trial to compare yet")
    merged = TrialTable.merge([part.table for part in parts])
    return tuple(_table(problem, placed, merged, baseline) for problem, baseline in baselines.items())


def _table(
    problem: Problem, placed: PlacedTrials, merged: TrialTable, baseline: Mapping[str, float]
) -> ComparisonTable:
    trials = [trial for trial in placed.trials if (trial.case.model, trial.case.dataset) == problem]
    here = (merged.trials["model"] == problem.model) & (merged.trials["dataset"] == problem.dataset)
    columns = merged.columns
    # The paper's metrics, the losses, then every other metric.
    asked = [name for name in columns.metrics if columns[name].primary or name in columns.thresholds]
    metrics = merged.of(merged.trials[here]).measured(tuple(dict.fromkeys([*asked, *columns.losses, *columns.metrics])))
    rows = []
    for case in dict.fromkeys(trial.case for trial in trials):
        own = [trial for trial in trials if trial.case == case]
        arms = [[trial for trial in own if bool(trial.variant) is on] for on in (False, True)]
        rows.append(MethodRow(case.method, *(_chosen(arm, placed, metrics, baseline) for arm in arms)))
    values = {name: Value(baseline[name], None, None) for name in metrics if name in baseline}
    top = Entry("No-unlearn", 1, 0, values) if baseline else None
    return ComparisonTable(*problem, metrics, top, tuple(rows), _rule(merged.columns))


def _chosen(
    trials: Sequence[PlacedTrial], placed: PlacedTrials, metrics: Sequence[str], baseline: Mapping[str, float]
) -> Entry | None:
    """The entry of the configuration the rule picks."""
    configurations: dict[tuple[object, ...], list[PlacedTrial]] = {}
    for trial in trials:
        configurations.setdefault((trial.variant, trial.lr, trial.setting), []).append(trial)
    ranked = []
    for members in configurations.values():
        done = [trial.row for trial in members if trial.row["status"] == "finished"]
        if done:
            successes = sum(placed.columns.success(partial(finite_cell, row), baseline) is True for row in done) / len(
                members
            )
            # A diverged seed attains the worst corner.
            size = next((len(trial.costs) for trial in members if trial.costs is not None), 0)
            costs = [np.ones(size) if trial.costs is None else trial.costs for trial in members]
            share = hypervolume([np.mean(costs, axis=0)]) if size else 0.0
            ranked.append((successes, share, members, done))
    best = max(ranked, key=lambda item: item[:2], default=None)
    return None if best is None else _entry(*best[2:], placed, metrics, baseline)


def _entry(
    members: Sequence[PlacedTrial], done: Sequence[pd.Series], placed: PlacedTrials, metrics: Sequence[str],
    baseline: Mapping[str, float],
) -> Entry:  # fmt: skip
    first, lost = members[0], len(members) - len(done)
    rate = [] if first.lr is None else [f"lr {number(first.lr)}"]
    options = [
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in zip(placed.setting_columns, first.setting, strict=True)
        if value is not None
    ]
    label = ", ".join([*([policy_in_words(first.variant, first.lr)] if first.variant else rate), *options])
    values = {}
    for name in metrics:
        scores = [score for row in done if (score := finite_cell(row, name)) is not None]
        if scores:
            mean, deviation = math.fsum(scores) / len(scores), stdev(scores) if scores[1:] else None
            threshold = placed.columns[name].threshold
            met = threshold.met(mean, baseline.get(name)) if threshold else None
            values[name] = Value(mean, deviation, met, len(scores))
    succeeded = [placed.columns.success(partial(finite_cell, row), baseline) for row in done]
    return Entry(label, len(done), lost, values, *_outcome(succeeded, lost))


def _outcome(succeeded: Sequence[bool | None], lost: int) -> tuple[bool | None, str]:
    """What the seeds come to, and that in words: ``2 of 3 seeds``, or ``yes (2 of 3 seeds)`` of those known."""
    met, missed, seeds = succeeded.count(True), succeeded.count(False), len(succeeded) + lost
    if met and missed:
        return None, f"{met} of {seeds} seeds"
    if met:
        return (True, "yes") if met == seeds else (None, f"yes ({met} of {seeds} seeds)")
    if missed:
        return (False, "no") if missed == len(succeeded) else (None, f"no ({missed} of {seeds} seeds)")
    return None, "\u2013"


def _rule(columns: Columns) -> str:
    """How an entry was chosen, and what bold means."""
    asked: dict[str, list[str]] = {}
    for name, threshold in columns.thresholds.items():
        asked.setdefault(threshold.words(), []).append(short(name))
    said = "; ".join(f"{' and '.join(names)} {words}" for words, names in asked.items())
    return (
        "Each method is shown at one configuration (learning rate and options), without AutoLR and with it: the one "
        f"with the largest share of seeds that meet the paper's thresholds ({said or 'none of them applies here'}), of "
        "those the one whose mean objectives dominate the largest share of the box. Choice and numbers are from the "
        "same seeds. Bold: the mean meets the metric's threshold. Means are over finished seeds, or over the seeds "
        "that a cell names; a success of some seeds says of how many. ± is the standard deviation over seeds."
    )
