"""Compute the comparison table of each unlearning task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from analysis.comparison.arms import compared_trials
from analysis.comparison.success import criterion_of
from analysis.comparison.table import ComparisonTable, Entry, MethodRow, Value, best_entry
from analysis.errors import AnalysisError
from analysis.tables.columns import Columns, short
from analysis.tables.note import Note, note
from analysis.tables.out_of_bounds import values_outside
from analysis.tables.sources import Sources, read_source, same_model, shared, with_prefix
from analysis.tables.sweep_file import SweepFile
from analysis.tables.tasks import Task, tasks_of
from analysis.tables.trial_table import TrialTable, auto_lr_on


def comparison_sources(paths: Sequence[Path], columns: Columns) -> list[Sources]:
    """Read the sweep folders and CSV files of a comparison, and choose the objectives of each folder and file.

    A CSV file needs a column ``method`` and a column for each metric. The objectives of a CSV file are the primary
    metric of the forget set and the primary metric of the retain set. If a CSV file lacks a primary metric, its
    objectives are those of the first sweep. If the chosen objectives are not the same in all folders and files, the
    primary metrics become the objectives of all of them.
    """
    merged = columns
    for path in paths:
        if (path / "sweep.json").is_file():
            merged = SweepFile.read(path).columns | merged
    path_by_name = {f"{number}: {path.name}": path for number, path in enumerate(paths, start=1)}
    originals = {name: read_source(path, merged, sweep=name) for name, path in path_by_name.items()}
    default = next((source.sweep.objectives for source in originals.values() if source.sweep.objectives), ())
    sources = []
    for name, original in originals.items():
        source = original if original.sweeps else _with_primary_objectives(original)
        if default and not original.sweeps and not source.sweep.objectives:  # the CSV file has only losses
            source = read_source(path_by_name[name], merged, sweep=name, objectives=default)
            source = replace(source, sweep=replace(source.sweep, objectives=default))
        sources.append(source)
    if len({tuple(item.column for item in source.sweep.objectives) for source in sources}) > 1:
        return [_with_primary_objectives(source) for source in sources]
    return sources


def _with_primary_objectives(source: Sources) -> Sources:
    objectives = source.table.columns.primary_objectives(source.table.trials.columns)
    return replace(source, sweep=replace(source.sweep, objectives=objectives))


def comparison_data(sources: Sequence[Sources]) -> tuple[ComparisonTable, ...]:
    """Return a table for each unlearning task.

    Raises:
        AnalysisError: no trial has ended yet, or the sweeps on one task have different targets.
    """
    by_name = _fill_empty_cells({str(name): item for item in sources for name in item.table.trials["sweep"].unique()})
    if not by_name:
        raise AnalysisError("there is no trial to compare yet")
    if len(by_name) > 1:
        by_name = {name: with_prefix(item, _source_name(name)) for name, item in by_name.items()}
    merged = TrialTable.merge([item.table for item in by_name.values()])
    sweep = shared({name: item.sweep for name, item in by_name.items()})
    tasks = tasks_of(merged, sweep, seeds_vary=sweep.seeds_vary)
    tables = []
    distinct_tasks = dict.fromkeys(tasks.of_trials)
    for task in distinct_tasks:
        table = merged.with_trials(merged.trials[[other == task for other in tasks.of_trials]])
        task_sources = {str(name): by_name[str(name)] for name in table.trials["sweep"].unique()}
        notes = [*merged.notes]
        if len(distinct_tasks) > 1 and not (task.model and task.dataset):
            notes.append(note("unplaced_rows"))
        tables.append(_table(task, table, task_sources, task_notes=tasks.notes, notes=notes))
    return tuple(tables)


def _fill_empty_cells(sources: Mapping[str, Sources]) -> dict[str, Sources]:
    """Fill in the empty cells of the columns ``model`` and ``dataset`` in external tables.

    A trial gets the pair (model, data set) of a sweep. If the trial names a model or a data set, the pair must contain
    this name. If the external table has metrics of a target, they must equal the metrics of the sweep's target. If
    several pairs or no pairs meet these conditions, the cells stay empty.
    """
    by_pair: dict[tuple[str, str], list[Mapping[str, float]]] = {}
    for source in sources.values():
        own_trials = source.table.without_external.trials
        for pair in dict.fromkeys(zip(own_trials["model"], own_trials["dataset"], strict=True)):
            by_pair.setdefault(pair, []).append(source.sweep.baseline)
    filled = {}
    for name, source in sources.items():
        target = source.sweep.baseline
        pairs = [pair for pair, baselines in by_pair.items() if all(same_model(target, other) for other in baselines)]
        filled[name] = _fill_from_pairs(source, pairs)
    return filled


def _fill_from_pairs(source: Sources, pairs: list[tuple[str, str]]) -> Sources:
    trials = source.table.trials.copy()
    for index in trials.index[trials["external"].astype(bool)]:
        model, dataset = trials.at[index, "model"], trials.at[index, "dataset"]
        matches = [pair for pair in pairs if model in ("", pair[0]) and dataset in ("", pair[1])]
        if len(matches) == 1:
            trials.loc[index, ["model", "dataset"]] = matches[0]
    return replace(source, table=source.table.with_trials(trials))


def _source_name(name: str) -> str:
    """Remove the number from the name of a source: ``2: phi`` becomes ``phi``."""
    return name.split(": ", 1)[-1]


def _shared_sweep(task: Task, sources: Mapping[str, Sources]) -> SweepFile:
    """Return the settings that all sweeps and tables on a task share, with the metrics of their targets."""
    files = {name: source.sweep for name, source in sources.items()}
    sweep = shared(files)
    if not sweep.baseline and any(item.baseline for item in files.values()):
        names = ", ".join(_source_name(name) for name, item in files.items() if item.baseline)
        raise AnalysisError(
            f"the sweeps on {task} ({names}) have different targets. Compare each sweep alone, "
            "or use 'report', which compares every trial with the target of its own sweep"
        )
    # Trials of an external table without metrics of the target are compared with the shared target.
    return replace(sweep, files={name: item for name, item in files.items() if item.baseline or sources[name].sweeps})


def _table(
    task: Task, table: TrialTable, sources: Mapping[str, Sources], *, task_notes: Sequence[Note], notes: Sequence[Note]
) -> ComparisonTable:
    columns, sweep = table.columns, _shared_sweep(task, sources)
    criterion = criterion_of(table, sweep)
    trials, repeated = compared_trials(table, sources)
    # The order is: the paper's metrics, the losses, then every other metric.
    paper_metrics = [name for name in columns.metrics if columns[name].primary or name in criterion.thresholds]
    metrics = table.measured(tuple(dict.fromkeys([*paper_metrics, *columns.losses, *columns.metrics])))
    rows = []
    for key in dict.fromkeys(trial.key for trial in trials):
        sides = ([trial for trial in trials if (trial.key, trial.with_auto) == (key, auto)] for auto in (False, True))
        without, with_auto = (best_entry(side, criterion, metrics) for side in sides)
        rows.append(MethodRow(key, without, with_auto))
    measured = [name for name in metrics if name in sweep.baseline]
    values = {name: Value(mean=sweep.baseline[name], deviation=None, met=None) for name in measured}
    target = Entry(label="target", seeds=1, lost=0, values=values) if sweep.baseline else None
    all_notes = (
        *(*notes, *repeated),
        *_unfinished_notes(table),
        *_seed_notes(rows),
        *([note("thresholds_not_judged", names=tuple(map(short, criterion.unjudged)))] if criterion.unjudged else []),
        *_stated_threshold_notes(sweep),
        *_searched_option_notes(rows, columns),
        *([note("only_ends_compared")] if table.every_epoch else []),
        *values_outside(table.trials, table.columns),
    )
    thresholds = tuple(criterion.thresholds.values())
    return ComparisonTable(task, metrics, target, tuple(rows), thresholds, tuple(task_notes), all_notes)


def _unfinished_notes(table: TrialTable) -> Iterator[Note]:
    """Yield a note for each arm (a method with or without AutoLR) that has no finished trial."""
    trials = table.trials.assign(automatic=auto_lr_on(table.trials))
    for (method, automatic), arm_trials in trials.groupby(["method", "automatic"], sort=False):
        if not (arm_trials["status"] == "finished").any():
            arm = f"{method} with AutoLR" if automatic else str(method)
            yield note("arm_without_finished_trial", arm=arm, ends=tuple(Counter(arm_trials["status"]).items()))


def _seed_notes(rows: Sequence[MethodRow]) -> Iterator[Note]:
    for row in rows:
        seeds_of_arms = [arm.seed_numbers for arm in row.arms.values()]
        if len(seeds_of_arms) == 2 and all(seeds_of_arms) and len(set(seeds_of_arms)) == 2:
            yield note("different_seeds", method=row.key.label, without=seeds_of_arms[0], with_auto=seeds_of_arms[1])
    arms = {name: entry for row in rows for name, entry in row.arms.items()}
    if one_seed_arms := tuple(name for name, entry in arms.items() if len(entry.seed_numbers) == entry.seeds == 1):
        yield note("one_seed", names=() if len(one_seed_arms) == len(arms) > 1 else one_seed_arms)
    if pooled_arms := tuple(name for name, item in arms.items() if item.unit == "run" and item.seeds + item.lost > 1):
        yield note("unnamed_seeds", names=pooled_arms)


def _stated_threshold_notes(sweep: SweepFile) -> Iterator[Note]:
    if stated_thresholds := tuple(dict.fromkeys(text for file in sweep.files.values() for text in file.constraints)):
        yield note("stated_thresholds_ignored", stated=stated_thresholds)


def _searched_option_notes(rows: Sequence[MethodRow], columns: Columns) -> Iterator[Note]:
    """Yield a note for each row whose two configurations differ in a method option that was searched in a range."""
    for row in rows:
        sides = [dict(entry.configuration) for entry in row.arms.values()]
        names = dict.fromkeys(name for side in sides for name in side if columns[name].role == "method")
        if different := tuple(name for name in names if len({side.get(name) for side in sides}) > 1):
            yield note("options_differ", method=row.key.label, names=different)
