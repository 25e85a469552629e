"""What a report is made of: one sweep, or several sweeps, single runs and tables from elsewhere as one."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd

from analysis.errors import AnalysisError
from analysis.frontier.trade_off import Objective
from analysis.tables.csv_rows import CsvRows, read_rows
from analysis.tables.elsewhere import read_elsewhere
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import REQUIRED, TrialTable, concatenated, read_history
from analysis.tables.typed_columns import typed_frame

_UPDATES = ("eta", "eta_star", "eta_new", "slope", "curvature", "loss_zero", "loss_plus", "loss_minus")
_LANDSCAPE = ("eta", "x", "retain_loss", "forget_loss", "slope", "curvature", "loss_zero", "eta_star")


@dataclass(frozen=True, slots=True, eq=False)
class Sources:
    """The tables of a report.

    Attributes:
        table: all trials; of several sources a trial is called ``source/trial``, and checkpoints are relative to the
            report's folder.
        sweep: the sweep's file; of several, what they share.
        sweeps: the files of all sweeps, each with its command.
        auto_lr: the rows of auto_lr.csv, empty without one.
        landscape: the rows of landscape.csv, empty without one.
        files: of several sources, the file of each sweep by what the column ``sweep`` calls it.
    """

    table: TrialTable
    sweep: SweepFile
    sweeps: tuple[SweepFile, ...]
    auto_lr: pd.DataFrame
    landscape: pd.DataFrame
    files: Mapping[str, SweepFile] = field(default_factory=dict)


def read_sweep(out: Path) -> Sources:
    """One sweep's folder.

    Raises:
        AnalysisError: a file cannot be read; says which, where, and what was expected.
    """
    sweep = SweepFile.read(out)
    return Sources(TrialTable.read(out, sweep=sweep.name), sweep, (sweep,), *_logs(out))


def read_run(out: Path) -> Sources:
    """The folder of a single run: the row in metrics.json, its history, its AutoLR log and its landscape.

    Raises:
        AnalysisError: as :func:`read_sweep`.
    """
    path = out / "metrics.json"
    try:
        row = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise AnalysisError(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(row, dict) or not {"trial_id", "method"} <= set(row):
        raise AnalysisError(f"{path} is no run's metrics: expected an object with trial_id and method")
    known = {name: ("" if value is None and name not in ("lr", "seed") else value) for name, value in row.items()}
    frame = pd.DataFrame([{name: known.get(name, "") for name in REQUIRED} | known])
    numeric = frame.replace("", float("nan")).infer_objects()
    text = {
        name: frame[name].map(str) for name in (*REQUIRED, "auto_lr") if name in frame and name not in ("lr", "seed")
    }
    trials = numeric.assign(**text)
    trials.insert(0, "sweep", out.name)
    before_status = list(row)[: list(row).index("status")] if "status" in row else ["method"]
    spec = tuple(name for name in before_status if name not in ("trial_id", "spec_hash"))
    table = TrialTable(trials, read_history(out / "history.csv", out.name), spec)
    nothing = SweepFile(
        name=out.name,
        created="",
        command="",
        versions={},
        settings={},
        objectives=(),
        random_guess_loss=None,
        baseline={},
    )
    return Sources(table, nothing, (), *_logs(out))


def read_sources(paths: Sequence[Path], *, out: Path) -> Sources:
    """Sweeps, single runs (a folder with metrics.json) and CSV tables as one; ``out`` is the report's folder.

    A single sweep that is its own report keeps its trials' names.

    Raises:
        AnalysisError: no sweep is among them, their objectives differ, or one cannot be read.
    """
    sweeps = [path for path in paths if (path / "sweep.json").is_file()]
    if not sweeps:
        raise AnalysisError(f"none of {', '.join(map(str, paths))} holds a sweep: there is no sweep.json in it")
    if len(paths) == 1:
        read = read_sweep(paths[0])
        moved = read.table.renamed(str, lambda path: _from(out, paths[0], path))
        return replace(read, table=moved)
    files = [SweepFile.read(path) for path in sweeps]
    sweep = shared([(str(path), file) for path, file in zip(sweeps, files, strict=True)])
    named: dict[str, SweepFile] = {}
    tables, logs, landscapes = [], [], []
    for path, prefix in zip(paths, _prefixes(paths), strict=True):
        if path in sweeps:
            part = read_sweep(path)
            named[prefix] = part.sweep
        elif (path / "metrics.json").is_file():
            part = read_run(path)
        else:
            table = read_elsewhere(path, sweep.objectives)
            part = Sources(table, sweep, (), pd.DataFrame(), pd.DataFrame())
        tables.append(_labelled(part.table, prefix, out, path))
        logs.append(_prefixed(part.auto_lr, prefix))
        landscapes.append(_prefixed(part.landscape, prefix))
    merged = TrialTable.merge(tables)
    notes = tuple(dict.fromkeys([*merged.notes, *differences(files)]))
    merged = TrialTable(_marked(merged.trials), merged.history, merged.spec_columns, notes)
    return Sources(merged, sweep, tuple(files), concatenated(logs), concatenated(landscapes), named)


def _marked(trials: pd.DataFrame) -> pd.DataFrame:
    if "elsewhere" not in trials.columns:
        return trials
    return trials.assign(elsewhere=[value is True for value in trials["elsewhere"].tolist()])


def _labelled(table: TrialTable, prefix: str, out: Path, path: Path) -> TrialTable:
    moved = table.renamed(lambda trial_id: f"{prefix}/{trial_id}", lambda checkpoint: _from(out, path, checkpoint))
    trials, history = moved.trials.assign(sweep=prefix), moved.history.assign(sweep=prefix)
    return TrialTable(trials, history, moved.spec_columns, tuple(f"{prefix}: {note}" for note in moved.notes))


def _prefixed(frame: pd.DataFrame, prefix: str) -> pd.DataFrame:
    return frame.assign(trial_id=[f"{prefix}/{name}" for name in frame["trial_id"]]) if len(frame) else frame


def _from(out: Path, folder: Path, checkpoint: str) -> str:
    return Path(os.path.relpath(folder.resolve() / checkpoint, out.resolve())).as_posix()


def _prefixes(paths: Sequence[Path]) -> list[str]:
    """The last part of each path, with a number where two are alike."""
    names: list[str] = []
    for path in paths:
        base = path.resolve().stem if path.is_file() else path.resolve().name
        name, count = base, 2
        while name in names:
            name, count = f"{base} {count}", count + 1
        names.append(name)
    return names


def shared(sweeps: Sequence[tuple[str, SweepFile]]) -> SweepFile:
    """What sweeps, one or more, each with a name for messages, have in common.

    Bounds are the widest, so that every trial is scored in one box.

    Raises:
        AnalysisError: their objectives differ in more than the bounds.
    """
    files = [file for _, file in sweeps]
    known = [(file, name) for name, file in sweeps if file.objectives]
    objectives: list[Objective] = list(known[0][0].objectives) if known else []
    for file, name in known[1:]:
        pair = (objectives, file.objectives)
        kinds = [[(item.name, item.column, item.direction) for item in items] for items in pair]
        if kinds[0] != kinds[1]:
            said = [", ".join(f"{name}:{direction}" for name, _, direction in kind) for kind in kinds]
            raise AnalysisError(
                f"{known[0][1]} and {name} have other objectives ({said[0]}; {said[1]}): one frontier needs the same"
            )
        objectives = [
            replace(mine, low=min(mine.low, other.low), high=max(mine.high, other.high))
            for mine, other in zip(objectives, file.objectives, strict=True)
        ]
    baselines = [file.baseline for file, _ in known]
    guesses = {file.random_guess_loss for file, _ in known}
    planned = [file.planned_trials for file in files]
    versions = {name: ", ".join(dict.fromkeys(file.versions[name] for file in files if name in file.versions))
                for file in files for name in file.versions}  # fmt: skip
    total = sum(count or 0 for count in planned)
    return SweepFile(
        name=" + ".join(dict.fromkeys(file.name for file in files)),
        created=min((file.created for file in files if file.created), default=""),
        command=files[0].command if len(files) == 1 else "",
        versions=versions,
        settings=files[0].settings if len(files) == 1 else {"trials": total if all(planned) else None},
        objectives=tuple(objectives),
        random_guess_loss=guesses.pop() if len(guesses) == 1 else None,
        baseline=baselines[0] if baselines and all(item == baselines[0] for item in baselines) else {},
    )


def differences(files: Sequence[SweepFile]) -> list[str]:
    """In what sweeps differ that are scored together, in sentences."""
    known = [file for file in files if file.objectives]
    found = []
    if any(file.objectives != known[0].objectives for file in known):
        found.append("the sweeps have other bounds of the objectives: the widest count for all")
    if any(file.baseline != known[0].baseline for file in known):
        found.append("the sweeps have other No-unlearn models: none is shown, and thresholds that need one are open")
    if len(known) < len(files):
        found.append("a sweep is still making its target model")
    return found


def _logs(out: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    updates = _log(out / "auto_lr.csv", _UPDATES, {"trial_id", "fallback"})
    return updates, _log(out / "landscape.csv", _LANDSCAPE, {"trial_id"})


def _log(path: Path, numeric: Sequence[str], text: set[str]) -> pd.DataFrame:
    """The rows of a log by trial and step as written; a repeated row is one."""
    required = ("trial_id", "step")
    rows = read_rows(path, required=required)
    rows = rows if rows.columns else CsvRows(required)
    return typed_frame(path, rows, text=text, numeric={*numeric, "step"}).drop_duplicates(ignore_index=True)
