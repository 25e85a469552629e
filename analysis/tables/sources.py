"""Read the sources of a report: sweeps, single runs and external tables."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import or_
from pathlib import Path

import pandas as pd

from analysis.errors import AnalysisError
from analysis.tables.columns import Columns
from analysis.tables.csv_rows import read_rows, typed_frame
from analysis.tables.external import read_external
from analysis.tables.note import Note, note
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trade_off import widest
from analysis.tables.trial_table import TrialTable
from search_spaces.common.messages import no_sweep
from search_spaces.common.objective import Objective

_LANDSCAPE = frozenset(
    {"step", "eta", "eta_star", "slope", "curvature", "loss_zero", "x", "retain_loss", "forget_loss"}
)
"""The numeric columns of landscape.csv."""


@dataclass(frozen=True, slots=True, eq=False)
class Sources:
    """The contents of one source, or of several merged sources. A source is a sweep, a single run or an external table.

    Attributes:
        table: all trials. Trials of merged sources are named ``source/trial``.
        sweep: the settings that the sweeps share.
        landscape: the rows of landscape.csv of a single run; empty for other sources.
    """

    table: TrialTable
    sweep: SweepFile
    landscape: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def sweeps(self) -> tuple[SweepFile, ...]:
        return tuple(self.sweep.files.values())

    @property
    def each_sweep(self) -> list[Sources]:
        """One ``Sources`` for each sweep that has objectives, with its own bounds and without external tables."""
        return [
            replace(self, table=self.table.of_sweep(name), sweep=shared({name: file}))
            for name, file in self.sweep.files.items()
            if file.objectives
        ]


def read_source(
    path: Path, columns: Columns | None = None, *, sweep: str | None = None, objectives: Sequence[Objective] = ()
) -> Sources:
    """Read the folder of a sweep, the folder of a single run (with metrics.json), or an external CSV.

    Args:
        columns: the column dictionary for a source without a sweep.json.
        sweep: the name that the column ``sweep`` gives to the sweep or CSV.
        objectives: the objectives that an external CSV must have (:func:`read_external`).

    Raises:
        AnalysisError: a file cannot be read.
    """
    if (path / "sweep.json").is_file():
        file = SweepFile.read(path)
        name = file.name if sweep is None else sweep
        return Sources(TrialTable.read(path, sweep=name), shared({name: file}))
    columns = columns or Columns()
    if (path / "metrics.json").is_file():
        rows, _ = read_rows(path / "landscape.csv", required=("trial_id", "step"))
        landscape = typed_frame(path / "landscape.csv", rows, is_number=_LANDSCAPE.__contains__)
        return Sources(TrialTable.read_run(path, columns), SweepFile(name=path.name, columns=columns), landscape)
    if path.is_dir():
        raise AnalysisError(no_sweep(path))
    table, baseline = read_external(path, columns, sweep=sweep or path.stem, objectives=objectives)
    return Sources(table, SweepFile(name=path.stem, columns=table.columns, baseline=baseline))


def read_sources(paths: Sequence[Path], *, out: Path) -> Sources:
    """Read sweeps, single runs and CSV tables, and merge them.

    Args:
        out: the report's folder. Checkpoint paths become relative to this folder.

    Raises:
        AnalysisError: no source is a sweep, the objectives of the sweeps differ, or a source cannot be read.
    """
    paths = list(dict.fromkeys(paths))
    sweeps = [path for path in paths if (path / "sweep.json").is_file()]
    if not sweeps:
        raise AnalysisError(
            f"no sweep found in {', '.join(map(str, paths))}: expected a folder with the file sweep.json"
        )
    if len(paths) == 1:
        source = read_source(paths[0])
        return replace(source, table=source.table.renamed(str, lambda path: _relative_checkpoint(out, paths[0], path)))
    prefixes = dict(zip(paths, _prefixes(paths), strict=True))
    sweep = shared({prefixes[path]: SweepFile.read(path) for path in sweeps})
    sources = {
        prefix: with_prefix(
            read_source(path, sweep.columns, objectives=sweep.objectives),
            prefix,
            partial(_relative_checkpoint, out, path),
            sweep=prefix,
        )
        for path, prefix in prefixes.items()
    }
    merged = TrialTable.merge([source.table for source in sources.values()])
    baselines = {prefix: s.sweep.baseline for prefix, s in sources.items() if not s.sweeps and s.sweep.baseline}
    notes = [*merged.notes, *differences(sweep)]
    if baselines and any(file.baseline for file in sweep.files.values()):
        notes.append(note("target_of_the_sweeps"))
    elif baselines:
        prefix, baseline = next(iter(baselines.items()))
        sweep = replace(sweep, baseline=baseline)
        notes.append(note("target_of_a_table", name=prefix))
    return Sources(
        replace(merged, notes=tuple(dict.fromkeys(notes))),
        replace(sweep, columns=merged.columns),
    )


def sweep_folders(paths: Sequence[Path]) -> dict[str, Path]:
    """Return the folder of each sweep, keyed by its name in the column ``sweep`` after :func:`read_sources`.

    A folder in the working directory is relative to it, so that a report does not contain the paths of a machine.
    """
    names = [SweepFile.read(paths[0]).name] if len(paths) == 1 else _prefixes(paths)
    here = Path.cwd()
    return {
        name: path.relative_to(here) if path.is_relative_to(here) else path
        for name, path in zip(names, paths, strict=True)
        if (path / "sweep.json").is_file()
    }


def with_prefix(source: Sources, prefix: str, checkpoint: Callable[[str], str] = str, sweep: str = "") -> Sources:
    """Return a copy with the trial ids ``prefix/ID`` and ``prefix`` as the source of all notes.

    Args:
        checkpoint: function that takes a checkpoint path and returns the new path.
        sweep: the new value of the column ``sweep``; "" keeps the values.
    """
    table = source.table.renamed(lambda trial_id: f"{prefix}/{trial_id}", checkpoint, sweep)
    table = replace(table, notes=tuple(replace(item, source=prefix) for item in table.notes))
    return replace(source, table=table)


def _relative_checkpoint(out: Path, folder: Path, checkpoint: str) -> str:
    return Path(os.path.relpath(folder.resolve() / checkpoint, out.resolve())).as_posix()


def _prefixes(paths: Sequence[Path]) -> list[str]:
    names: list[str] = []
    for path in paths:
        stem = path.resolve().stem if path.is_file() else path.resolve().name
        candidates = (stem if count == 1 else f"{stem} {count}" for count in itertools.count(1))
        names.append(next(name for name in candidates if name not in names))
    return names


def shared(files: Mapping[str, SweepFile]) -> SweepFile:
    """Return the settings that one or more sweeps share.

    Each objective gets the smallest bounds that enclose its bounds in all sweeps. If the targets of the sweeps have
    different metrics, the shared baseline is empty.

    Raises:
        AnalysisError: the objectives of the sweeps differ in more than their bounds.
    """
    all_files = list(files.values())
    ready = {name: file for name, file in files.items() if file.objectives}
    axes = {
        name: [(item.name, item.column, item.direction) for item in file.objectives] for name, file in ready.items()
    }
    first = next(iter(axes), "")
    for name, other in axes.items():
        if other != axes[first]:
            texts = "; ".join(", ".join(f"{item[0]}:{item[2]}" for item in items) for items in (axes[first], other))
            raise AnalysisError(
                f"{first} and {name} have different objectives ({texts}), so they have no common frontier"
            )
    if len(all_files) == 1:
        return replace(all_files[0], files=files)
    settings: dict[str, object] = {"trials": _total_trials(all_files)}
    constraints = all_files[0].constraints
    if constraints and all(file.constraints == constraints for file in all_files):
        settings["constraints"] = constraints
    criteria = {file.criterion for file in all_files}
    settings["criterion"] = criteria.pop() if len(criteria) == 1 else "usable"
    guesses = {file.random_guess_loss for file in ready.values()}
    return SweepFile(
        name=" + ".join(dict.fromkeys(file.name for file in all_files)),
        columns=reduce(or_, [file.columns for file in all_files]),
        settings=settings,
        objectives=widest([file.objectives for file in ready.values()]),
        random_guess_loss=guesses.pop() if len(guesses) == 1 else None,
        baseline=_merged_baseline([file.baseline for file in all_files]),
        never_saw=_merged_baseline([file.never_saw for file in all_files]),
        items=_merged_baseline([file.items for file in all_files]),
        files=files,
    )


def _total_trials(files: Sequence[SweepFile]) -> int | None:
    """Return the planned number of trials of all sweeps together; None if it is unknown for a sweep."""
    planned = [file.planned_trials for file in files]
    return None if None in planned or 0 in planned else sum(count or 0 for count in planned)


def same_model(first: Mapping[str, float], second: Mapping[str, float]) -> bool:
    """Return whether two baselines have equal values, up to rounding, for all metrics that both contain."""
    return all(math.isclose(first[name], second[name], rel_tol=1e-6) for name in first.keys() & second.keys())


def _merged_baseline(baselines: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Merge the baselines; return {} if two baselines differ (:func:`same_model`)."""
    if all(same_model(*pair) for pair in itertools.combinations(baselines, 2)):
        return {name: value for baseline in reversed(baselines) for name, value in baseline.items()}
    return {}


def differences(sweep: SweepFile) -> list[Note]:
    """Return notes on the differences between the merged sweeps."""
    files = list(sweep.files.values())
    ready = [file for file in files if file.objectives]
    notes = []
    if any(file.objectives != ready[0].objectives for file in ready):
        notes.append(note("different_bounds"))
    if any(file.baseline for file in ready) and not _merged_baseline([file.baseline for file in ready]):
        notes.append(note("different_targets"))
    if len({(file.criterion, file.constraints) for file in files}) > 1:
        notes.append(note("different_thresholds"))
    if len(ready) < len(files):
        notes.append(note("target_in_progress"))
    return notes
