"""Compute the comparison table of each unlearning problem."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from analysis.comparison.table import ComparisonTable, Entry, MethodRow, Value, best_entry
from analysis.errors import AnalysisError
from analysis.study.study_runs import StudyRuns, study_runs
from analysis.tables.columns import Columns, short
from analysis.tables.note import Note, note
from analysis.tables.out_of_bounds import values_outside
from analysis.tables.problems import Problem
from analysis.tables.sources import Sources, read_source, same_model, shared, with_prefix
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable, auto_lr_on, finite_cell


def comparison_sources(paths: Sequence[Path], columns: Columns) -> list[Sources]:
    """Read the sweep folders and CSV files of a comparison, and choose the objectives of each folder and file.

    A CSV file needs a column ``method`` and a column for each metric. The objectives of a CSV file are the primary
    metric of the forget set and the primary metric of the retain set. If a CSV file lacks a primary metric, its
    objectives are those of the first sweep. If the chosen objectives are not the same in all folders and files, the
    primary metrics become the objectives of all of them.
    """
    described = columns
    for path in paths:
        if (path / "sweep.json").is_file():
            described = SweepFile.read(path).columns | described
    found = [read_source(path, described, sweep=f"{i + 1}: {path.name}") for i, path in enumerate(paths)]
    own = next((part.sweep.objectives for part in found if part.sweep.objectives), ())
    for place, part in enumerate(found):
        if not part.sweeps:
            found[place] = scored = _with_primary_objectives(part)
            if own and not scored.sweep.objectives:  # the CSV file has only losses
                again = read_source(paths[place], described, sweep=f"{place + 1}: {paths[place].name}", objectives=own)
                found[place] = replace(again, sweep=replace(again.sweep, objectives=own))
    if len({tuple(item.column for item in part.sweep.objectives) for part in found}) > 1:
        return [_with_primary_objectives(part) for part in found]
    return found


def _with_primary_objectives(part: Sources) -> Sources:
    objectives = part.table.columns.primary_objectives(part.table.trials.columns)
    return replace(part, sweep=replace(part.sweep, objectives=objectives))


def comparison_data(parts: Sequence[Sources]) -> tuple[ComparisonTable, ...]:
    """Return a table for each unlearning problem.

    Raises:
        AnalysisError: no trial has ended yet, or the sweeps on one problem have different targets.
    """
    named = _fill_empty_cells({str(name): part for part in parts for name in part.table.trials["sweep"].unique()})
    if not named:
        raise AnalysisError("there is no trial to compare yet")
    if len(named) > 1:
        named = {name: with_prefix(part, _source_name(name)) for name, part in named.items()}
    merged = TrialTable.merge([part.table for part in named.values()])
    sweep = shared({name: part.sweep for name, part in named.items()})
    boxes = [(part.table, part.sweep.objectives) for part in named.values()]
    study = study_runs(boxes, sweep, seeds_vary=sweep.seeds_vary)
    tables = []
    problems = dict.fromkeys(study.problems.of_trials)
    for problem in problems:
        here = merged.with_trials(merged.trials[[other == problem for other in study.problems.of_trials]])
        targets = _shared_sweep(problem, {name: named[str(name)] for name in here.trials["sweep"].unique()})
        unplaced = [note("unplaced_rows")] if len(problems) > 1 and not all(problem[:2]) else []
        tables.append(_table(problem, study, here, targets, [*merged.notes, *study.notes, *unplaced]))
    return tuple(tables)


def _fill_empty_cells(parts: Mapping[str, Sources]) -> dict[str, Sources]:
    """Fill in the empty cells of the columns ``model`` and ``dataset`` in external tables.

    A trial gets the pair (model, data set) of a sweep. If the trial names a model or a data set, the pair must contain
    this name. If the external table has metrics of a target, they must equal the metrics of the sweep's target. If
    several pairs or no pairs meet these conditions, the cells stay empty.
    """
    before: dict[tuple[str, str], list[Mapping[str, float]]] = {}
    for part in parts.values():
        own = part.table.without_external.trials
        for place in dict.fromkeys(zip(own["model"], own["dataset"], strict=True)):
            before.setdefault(place, []).append(part.sweep.baseline)
    found = {}
    for name, part in parts.items():
        ours = part.sweep.baseline
        places = [place for place, baselines in before.items() if all(same_model(ours, other) for other in baselines)]
        found[name] = _fill_from_pairs(part, places)
    return found


def _fill_from_pairs(part: Sources, places: list[tuple[str, str]]) -> Sources:
    trials = part.table.trials.copy()
    for index in trials.index[trials["external"].astype(bool)]:
        model, dataset = trials.at[index, "model"], trials.at[index, "dataset"]
        meant = [place for place in places if model in ("", place[0]) and dataset in ("", place[1])]
        if len(meant) == 1:
            trials.loc[index, ["model", "dataset"]] = meant[0]
    return replace(part, table=part.table.with_trials(trials))


def _source_name(name: str) -> str:
    """Remove the number from the name of a source: ``2: phi`` becomes ``phi``."""
    return name.split(": ", 1)[-1]


def _shared_sweep(problem: Problem, parts: Mapping[str, Sources]) -> SweepFile:
    """Return the settings that all sweeps and tables on a problem share, with the metrics of their targets."""
    files = {name: part.sweep for name, part in parts.items()}
    file = shared(files)
    if not file.baseline and any(item.baseline for item in files.values()):
        own = ", ".join(_source_name(name) for name, item in files.items() if item.baseline)
        raise AnalysisError(
            f"the sweeps on {problem} ({own}) have different targets. Compare each sweep alone, "
            "or use 'report', which compares every trial with the target of its own sweep"
        )
    # Trials of an external table without metrics of the target are compared with the shared target.
    return replace(file, files={name: item for name, item in files.items() if item.baseline or parts[name].sweeps})


def _table(
    problem: Problem, study: StudyRuns, here: TrialTable, targets: SweepFile, notes: Sequence[Note]
) -> ComparisonTable:
    runs = [run for run in study.runs if run.task.problem == problem]
    columns = here.columns
    # The order is: the paper's metrics, the losses, then every other metric.
    asked = [name for name in columns.metrics if columns[name].primary or name in columns.thresholds]
    metrics = here.measured(tuple(dict.fromkeys([*asked, *columns.losses, *columns.metrics])))
    rows = []
    for task in dict.fromkeys(run.task for run in runs):
        arms = [[run for run in runs if run.task == task and bool(run.variant) is on] for on in (False, True)]
        rows.append(MethodRow(task.method, *(best_entry(arm, study, metrics, targets) for arm in arms)))
    values = {name: Value(targets.baseline[name], None, None) for name in metrics if name in targets.baseline}
    top = Entry("target", 1, 0, values) if targets.baseline else None
    every = (*notes, *_notes(here, rows, targets))
    asked_of = tuple(study.columns.thresholds.values())
    return ComparisonTable(problem, metrics, top, tuple(rows), asked_of, study.problems.notes, every)


def _notes(here: TrialTable, rows: Sequence[MethodRow], targets: SweepFile) -> tuple[Note, ...]:
    return (
        *_unfinished_notes(here),
        *_seed_notes(rows),
        *_threshold_notes(here, targets),
        *([note("only_ends_compared")] if here.every_epoch else []),
        *values_outside(here.trials, here.columns),
    )


def _unfinished_notes(here: TrialTable) -> Iterator[Note]:
    """Yield a note for each arm (a method with or without AutoLR) that has no finished trial."""
    trials = here.trials.assign(automatic=auto_lr_on(here.trials))
    for (method, automatic), own in trials.groupby(["method", "automatic"], sort=False):
        if not (own["status"] == "finished").any():
            arm = f"{method} with AutoLR" if automatic else str(method)
            yield note("arm_without_finished_trial", arm=arm, ends=tuple(Counter(own["status"]).items()))


def _seed_notes(rows: Sequence[MethodRow]) -> Iterator[Note]:
    for row in rows:
        sides = [side.seed_numbers for side in row.arms.values()]
        if len(sides) == 2 and all(sides) and len(set(sides)) == 2:
            yield note("different_seeds", method=row.method, without=sides[0], with_auto=sides[1])
    arms = {name: entry for row in rows for name, entry in row.arms.items()}
    if alone := tuple(name for name, entry in arms.items() if len(entry.seed_numbers) == entry.seeds == 1):
        yield note("one_seed", names=() if len(alone) == len(arms) > 1 else alone)
    if pooled := tuple(name for name, item in arms.items() if item.unit == "run" and item.seeds + item.lost > 1):
        yield note("unnamed_seeds", names=pooled)


def _threshold_notes(here: TrialTable, targets: SweepFile) -> Iterator[Note]:
    done = [(row, targets.baseline_of(row)) for _, row in here.finished.iterrows()]
    unknown = tuple(
        short(name)
        for name, item in here.columns.thresholds.items()
        if all(item.met(finite_cell(row, name), before.get(name)) is None for row, before in done)
    )
    if done and unknown:
        yield note("thresholds_not_judged", names=unknown)
    if stated := tuple(dict.fromkeys(text for file in targets.files.values() for text in file.constraints)):
        yield note("stated_thresholds_ignored", stated=stated)
