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
from analysis.tables.problems import Problem
from analysis.tables.sources import Sources, read_source, shared
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable, finite_cell
from analysis.words import number, policy_in_words
from search_spaces.constraint import Constraint, all_met


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
    """One problem: the No-unlearn model (its mean, where every seed has one) and every method.

    ``apart`` is what sets it apart from others on the same model and data set; ``rule`` says how an entry was chosen.
    """

    model: str
    dataset: str
    apart: str
    metrics: tuple[str, ...]
    baseline: Entry | None
    rows: tuple[MethodRow, ...]
    rule: str = ""


def comparison_parts(paths: Sequence[Path], columns: Columns) -> list[Sources]:
    """Every source with its objectives: sweep folders, and CSV files, whose ``columns`` the sweeps may add to.

    A CSV needs a column ``method`` and one for each metric. Its configurations are ranked by the primary metrics, as
    it has no losses' bounds (without those by a sweep's objectives); so are all where the sweeps have different
    objectives: those bounds are the same for all.

    Raises:
        AnalysisError: a source is neither, or cannot be read.
    """
    described = columns
    for path in paths:
        if (path / "sweep.json").is_file():
            described = read_source(path, columns).sweep.columns | described
    found = [read_source(path, described, sweep=f"{i + 1}: {path.name}") for i, path in enumerate(paths)]
    own = next((part.sweep.objectives for part in found if part.sweep.objectives), ())
    for place, part in enumerate(found):
        if not part.sweeps:
            found[place] = scored = _ranked_by_scores(part)
            if own and not scored.sweep.objectives:  # losses alone, in a sweep's bounds
                again = read_source(paths[place], described, sweep=f"{place + 1}: {paths[place].name}", objectives=own)
                found[place] = replace(again, sweep=replace(again.sweep, objectives=own))
    if len({tuple(item.column for item in part.sweep.objectives) for part in found}) > 1:
        return [_ranked_by_scores(part) for part in found]
    return found


def _ranked_by_scores(part: Sources) -> Sources:
    objectives = part.table.columns.primary_objectives(part.table.trials.columns)
    return replace(part, sweep=replace(part.sweep, objectives=objectives))


def comparison_data(parts: Sequence[Sources]) -> tuple[ComparisonTable, ...]:
    """A table for every problem: model and data set, and the target and data in which the trials on these differ.

    Raises:
        AnalysisError: no trial at all, or sweeps on one problem whose No-unlearn metrics differ: they had different
            targets.
    """
    named = {str(name): part for part in parts for name in part.table.trials["sweep"].unique()}
    if not named:
        raise AnalysisError("there is no trial to compare yet")
    merged = TrialTable.merge([part.table for part in named.values()])
    sweep = shared({name: part.sweep for name, part in named.items()})
    boxes = [(part.table, part.sweep.objectives) for part in named.values()]
    placed = placed_trials(boxes, sweep, seeds_vary=sweep.seeds_vary)
    rule = " ".join([_rule(merged.columns), *(f"{note[:1].upper()}{note[1:]}." for note in placed.problems.notes)])
    tables = []
    for problem in dict.fromkeys(placed.problems.of):
        here = merged.of(merged.trials[[other == problem for other in placed.problems.of]])
        targets = _targets(problem, {name: named[str(name)] for name in here.trials["sweep"].unique()})
        tables.append(_table(problem, placed, here, targets, rule))
    return tuple(tables)


def _targets(problem: Problem, parts: Mapping[str, Sources]) -> SweepFile:
    """What the sweeps on a problem share, and of each trial there the No-unlearn model from which it started.

    Rows from elsewhere without a model before unlearning of their own are held against that of the others.
    """
    files = {name: part.sweep for name, part in parts.items()}
    file = shared(files)
    if not file.baseline and any(item.baseline for item in files.values()):
        raise AnalysisError(f"the sweeps on {problem} have different No-unlearn models: compare them one at a time")
    return replace(file, parts={name: item for name, item in files.items() if item.baseline or parts[name].sweeps})


def _table(problem: Problem, placed: PlacedTrials, here: TrialTable, targets: SweepFile, rule: str) -> ComparisonTable:
    trials = [trial for trial in placed.trials if trial.case.problem == problem]
    columns = here.columns
    # The paper's metrics, the losses, then every other metric.
    asked = [name for name in columns.metrics if columns[name].primary or name in columns.thresholds]
    metrics = here.measured(tuple(dict.fromkeys([*asked, *columns.losses, *columns.metrics])))
    rows = []
    for case in dict.fromkeys(trial.case for trial in trials):
        own = [trial for trial in trials if trial.case == case]
        arms = [[trial for trial in own if bool(trial.variant) is on] for on in (False, True)]
        rows.append(MethodRow(case.method, *(_chosen(arm, placed, metrics, targets) for arm in arms)))
    values = {name: Value(targets.baseline[name], None, None) for name in metrics if name in targets.baseline}
    top = Entry("No-unlearn", 1, 0, values) if targets.baseline else None
    return ComparisonTable(*problem, metrics, top, tuple(rows), rule)


def _chosen(
    trials: Sequence[PlacedTrial], placed: PlacedTrials, metrics: Sequence[str], targets: SweepFile
) -> Entry | None:
    """The entry of the configuration the rule picks."""
    configurations: dict[tuple[object, ...], list[PlacedTrial]] = {}
    for trial in trials:
        configurations.setdefault((trial.variant, trial.lr, trial.setting), []).append(trial)
    ranked = []
    for members in configurations.values():
        done = [trial.row for trial in members if trial.row["status"] == "finished"]
        if done:
            successes = sum(
                placed.columns.success(partial(finite_cell, row), targets.baseline_of(row)) is True for row in done
            ) / len(members)
            # A diverged seed attains the worst corner.
            size = next((len(trial.costs) for trial in members if trial.costs is not None), 0)
            costs = [np.ones(size) if trial.costs is None else trial.costs for trial in members]
            share = hypervolume([np.mean(costs, axis=0)]) if size else 0.0
            ranked.append((successes, share, members, done))
    best = max(ranked, key=lambda item: item[:2], default=None)
    return None if best is None else _entry(*best[2:], placed, metrics, targets)


def _entry(
    members: Sequence[PlacedTrial], done: Sequence[pd.Series], placed: PlacedTrials, metrics: Sequence[str],
    targets: SweepFile,
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
        found = [(row, score) for row in done if (score := finite_cell(row, name)) is not None]
        if found:
            scores = [score for _, score in found]
            mean, deviation = math.fsum(scores) / len(scores), stdev(scores) if scores[1:] else None
            before = [targets.baseline_of(row).get(name) for row, _ in found]
            met = _met(placed.columns[name].threshold, mean, scores, before)
            values[name] = Value(mean, deviation, met, len(scores))
    succeeded = [placed.columns.success(partial(finite_cell, row), targets.baseline_of(row)) for row in done]
    return Entry(label, len(done), lost, values, *_outcome(succeeded, lost))


def _outcome(succeeded: Sequence[bool | None], lost: int) -> tuple[bool | None, str]:
    """What the seeds come to, and that in words: ``2 of 3 seeds``, or ``yes (2 of 3 seeds)`` of those known."""
    met, missed, seeds = succeeded.count(True), succeeded.count(False), len(succeeded) + lost
    if met and missed:
        return None, f"{met} of {seeds} seeds"
    if met:
        return (True, "yes") if met == seeds else (None, f"yes ({met} of {seeds} seeds)")
    if missed:
        known = missed == len(succeeded)
        return (False if known else None), ("no" if missed == seeds else f"no ({missed} of {seeds} seeds)")
    return None, "\u2013"


def _met(
    threshold: Constraint | None, mean: float, scores: Sequence[float], before: Sequence[float | None]
) -> bool | None:
    """Whether the mean of ``scores`` meets a threshold; of seeds with targets of their own, each against its own.

    ``before`` is what the target of each score has, None where it was not measured.
    """
    if threshold is None:
        return None
    if not threshold.relative or len(set(before)) == 1:
        return threshold.met(mean, before[0])
    return all_met(threshold.met(*pair) for pair in zip(scores, before, strict=True))


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
