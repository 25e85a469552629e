"""The tables of a sweep (trials.csv, history.csv, ...), from which all figures and numbers are computed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from operator import or_
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.errors import AnalysisError
from analysis.tables.columns import Columns
from analysis.tables.csv_rows import read_rows, typed_frame
from analysis.tables.note import Note, note
from analysis.tables.sweep_file import SweepFile
from search_spaces.common.durable import is_locked
from search_spaces.common.messages import resume_command

STATUSES = ("finished", "stopped", "diverged", "failed")
_CANDIDATE = ("trial_id", "epoch", "step", "checkpoint")
_UPDATE = frozenset({"step", "eta", "eta_star", "eta_new"})
"""The columns of auto_lr.csv that are read as numbers."""
REQUIRED = ("trial_id", "spec_hash", "model", "dataset", "method", "lr", "seed", "status", "checkpoint", "error")


@dataclass(frozen=True, eq=False)
class TrialTable:
    """All ended trials of a search. The data frames are never changed in place, so computed properties are cached.

    Attributes:
        trials: one row per trial of the search and per merged model. The column ``external`` marks rows from another
            program's table. The column ``folder`` has the folder of the trial's sweep, and is empty for other sources.
        history: one row per result that a trial reported. This table includes running trials.
        candidates: one row per evaluated epoch; empty if the sweep evaluates only the last epoch of a trial.
        updates: one row per AutoLR update; empty without auto_lr.csv.
        fresh: one row per confirm trial, which trained the configuration of the trial ``confirms`` with a fresh seed.
            The other tables do not contain confirm trials.
        audited: one row per audit trial, which fine-tuned the base model with or without the forget set. The other
            tables do not contain audit trials.
        notes: notes on rows that were left out while the tables were read.
        methods: the methods in the order of their colours in figures. A copy with fewer trials keeps all methods, so
            that the colours do not change.
    """

    trials: pd.DataFrame
    history: pd.DataFrame
    columns: Columns
    notes: tuple[Note, ...] = ()
    candidates: pd.DataFrame = field(default_factory=lambda: _no_rows(*_CANDIDATE))
    updates: pd.DataFrame = field(default_factory=lambda: _no_rows("trial_id", "step"))
    fresh: pd.DataFrame = field(default_factory=lambda: _no_rows("trial_id", "confirms"))
    audited: pd.DataFrame = field(default_factory=lambda: _no_rows("trial_id", "method"))
    methods: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.methods and {"external", "method"} <= set(self.trials.columns):
            names = self.trials.loc[~self.trials["external"].astype(bool), "method"]
            object.__setattr__(self, "methods", tuple(sorted(set(map(str, names)))))

    @classmethod
    def read(cls, out: Path, *, sweep: str = "") -> TrialTable:
        """Read the tables in a sweep's folder, even while the sweep runs. A table that does not exist yet is empty.

        If two rows have the same trial id, only the first row is used.

        Raises:
            AnalysisError: a file cannot be read.
        """
        file = SweepFile.read(out)
        columns = file.columns
        path = out / "trials.csv"
        _check_exists(path)
        if not path.exists() and _has_front(out / "pareto.json"):
            raise AnalysisError(f"{path} is missing, although pareto.json lists trials of this sweep")
        cells, is_torn = read_rows(path, required=REQUIRED)
        trials = typed_trials(path, cells, columns, sweep).assign(folder=str(out))
        _check_trials(path, cells)
        notes = [note("incomplete_line", file=path.name)] if is_torn else []
        is_repeated = trials["trial_id"].duplicated()
        if is_repeated.any():
            repeated_ids = tuple(sorted(set(trials.loc[is_repeated, "trial_id"])))
            notes.append(note("repeated_rows", file=path.name, trials=repeated_ids))
        trials = trials[~is_repeated].reset_index(drop=True)
        history, updates = _read_courses(out, sweep, columns)
        candidates = _read_candidates(out, sweep, columns)
        fresh = trials[_phase_is(trials, "confirm")].reset_index(drop=True)
        if "confirms" not in fresh:  # such as in a table without rows
            fresh = fresh.assign(confirms=pd.Series(dtype=object))
        audited = trials[_phase_is(trials, "audit")].reset_index(drop=True)
        other_ids = {
            trial_id for rows in (trials, history) for trial_id in rows.loc[~_has_candidates(rows), "trial_id"]
        }
        trials, history, updates = (
            rows[~rows["trial_id"].isin(other_ids)].reset_index(drop=True) for rows in (trials, history, updates)
        )
        if file.settings.get("candidates") == "all" and (missing_ids := _without_last_epoch(trials, candidates)):
            _check_exists(out / "candidates.csv")
            notes.append(note("missing_epochs", trials=missing_ids))
        return cls(trials, history, columns, tuple(notes), candidates, updates, fresh, audited)

    @classmethod
    def read_run(cls, out: Path, columns: Columns) -> TrialTable:
        """Read the table of a single run from its files metrics.json (the only trial) and history.csv.

        Raises:
            AnalysisError: a file cannot be read.
        """
        path = out / "metrics.json"
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise AnalysisError(f"{path} cannot be read as JSON: {error}") from None
        if not isinstance(values, dict) or not {"trial_id", "method"} <= set(values):
            raise AnalysisError(
                f"{path} has no metrics of a run: expected an object with the keys 'trial_id' and 'method'"
            )
        cells = {name: "" if value is None else str(value) for name, value in values.items()}
        trials = typed_trials(path, pd.DataFrame(cells, [1], dtype=object), columns, out.name)
        history, updates = _read_courses(out, out.name, columns)
        return cls(trials, history, columns, updates=updates)

    @classmethod
    def merge(cls, tables: Sequence[TrialTable]) -> TrialTable:
        """Merge the tables of several sweeps. Their names in the column ``sweep`` must differ."""
        return cls(
            concatenated([table.trials for table in tables]),
            concatenated([table.history for table in tables]),
            reduce(or_, [table.columns for table in tables]),
            tuple(item for table in tables for item in table.notes),
            concatenated([table.candidates for table in tables]),
            concatenated([table.updates for table in tables]),
            concatenated([table.fresh for table in tables]),
            concatenated([table.audited for table in tables]),
        )

    def with_trials(self, trials: pd.DataFrame) -> TrialTable:
        """Return a copy of the table with different trials but unchanged history and candidates."""
        return replace(self, trials=trials)

    def of_sweep(self, name: str) -> TrialTable:
        return self._mapped(lambda rows: rows[rows["sweep"] == name])

    def of_trial(self, trial_id: str) -> TrialTable:
        return self._mapped(lambda rows: rows[rows["trial_id"] == trial_id])

    def renamed(self, name: Callable[[str], str], checkpoint: Callable[[str], str], sweep: str = "") -> TrialTable:
        """Return a copy with changed trial ids and checkpoint paths. Empty checkpoint paths stay empty.

        Args:
            name: function that takes a trial id and returns the new id.
            checkpoint: function that takes a checkpoint path and returns the new path.
            sweep: the new name of the sweep; "" keeps the name.
        """

        def renamed(rows: pd.DataFrame) -> pd.DataFrame:
            rows = rows.assign(trial_id=rows["trial_id"].map(name), sweep=sweep or rows["sweep"])
            if "confirms" in rows:
                rows["confirms"] = [name(trial_id) if trial_id else "" for trial_id in rows["confirms"]]
            if "checkpoint" in rows:
                rows["checkpoint"] = [checkpoint(path) if path else "" for path in rows["checkpoint"]]
            return rows

        return self._mapped(renamed)

    def _mapped(self, change: Callable[[pd.DataFrame], pd.DataFrame]) -> TrialTable:
        names = ("trials", "history", "candidates", "updates", "fresh", "audited")
        tables: dict[str, Any] = {name: change(getattr(self, name)) for name in names}
        return replace(self, **tables)

    @cached_property
    def without_external(self) -> TrialTable:
        """The table without the rows of external tables, whose models cannot be selected."""
        return self.with_trials(self.trials[~self.trials["external"]]) if self.trials["external"].any() else self

    @cached_property
    def searched(self) -> pd.DataFrame:
        """The trials of the search, without merged models and the rows of external tables."""
        trials = self.without_external.trials
        return trials[is_search(trials)]

    def planned(self, sweep: SweepFile) -> int | None:
        """Return the number of trials that the searches of the sweeps plan to run; None if unknown.

        A search that has used up its epoch budget plans no more trials. The budget does not pay for reused trials.
        """
        if sweep.planned_trials is None:
            return None
        planned = 0
        for name, file in (sweep.files or {"": sweep}).items():
            ended = self.searched[self.searched["sweep"] == name] if sweep.files else self.searched
            budget, trained = file.settings.get("epoch_budget"), numbers(ended[~is_reused(ended)], "epochs_done").sum()
            planned += len(ended) if isinstance(budget, int) and trained >= budget else file.planned_trials or 0
        return planned

    @cached_property
    def models(self) -> TrialTable:
        """The table with one row for each model that may be on a frontier.

        Each evaluated epoch is a model. For a finished trial without rows in ``candidates``, the last epoch is a model.
        A trial that is a copy of another trial in the table adds no models.
        """
        return self.with_trials(_model_rows(self.trials, self.candidates))

    @cached_property
    def every_epoch(self) -> bool:
        """Whether the models after earlier epochs can be selected, not only the model after a trial's last epoch."""
        return bool(self.trials["trial_id"].isin(self.candidates["trial_id"]).any())

    @property
    def spec_columns(self) -> tuple[str, ...]:
        """The names of the columns that contain settings of a trial."""
        return tuple(filter(self.columns.is_setting, self.trials.columns))

    @cached_property
    def varying(self) -> tuple[str, ...]:
        """The names of the settings whose values differ between trials. Rows of external tables are ignored."""
        trials = self.without_external.trials
        return tuple(name for name in self.spec_columns if trials[name].nunique(dropna=False) > 1)

    @property
    def finished(self) -> pd.DataFrame:
        return self.with_status("finished")

    def with_status(self, status: str) -> pd.DataFrame:
        """Return the trials with this status, one of :data:`STATUSES`."""
        return self.trials[self.trials["status"] == status]

    def measured(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return those columns of ``names`` that have a finite number in at least one finished trial."""
        finished = self.finished
        return tuple(name for name in names if np.isfinite(numbers(finished, name)).any())

    def history_of(self, trial_id: str) -> pd.DataFrame:
        """Return the history of one trial, sorted by step."""
        return self.history[self.history["trial_id"] == trial_id]

    @property
    def running(self) -> tuple[str, ...]:
        """The ids of the trials that have reported at least once but have not ended."""
        ended = set(zip(self.trials["sweep"], self.trials["trial_id"], strict=True))
        started = dict.fromkeys(zip(self.history["sweep"], self.history["trial_id"], strict=True))
        return tuple(trial_id for sweep, trial_id in started if (sweep, trial_id) not in ended)


def auto_lr_on(trials: pd.DataFrame) -> pd.Series:
    """Return a mask of the trials that use AutoLR, shape (trials,)."""
    if "auto_lr" not in trials.columns:
        return pd.Series(False, index=trials.index, dtype=bool)
    return ~trials["auto_lr"].map(str).isin(("off", "", "nan", "False", "None"))


def is_reused(trials: pd.DataFrame) -> pd.Series:
    """Return a mask of the trials whose results were copied from another trial, shape (trials,)."""
    if "reused_from" not in trials.columns:
        return pd.Series(False, index=trials.index, dtype=bool)
    return trials["reused_from"].notna() & (trials["reused_from"] != "")  # only NaN if the column has no entries


def _phase_is(rows: pd.DataFrame, phase: str) -> pd.Series:
    """Return a mask of the rows of a phase, shape (rows,). Rows without a phase are of the search."""
    phases = rows["phase"] if "phase" in rows.columns else pd.Series("", index=rows.index, dtype=object)
    return phases.replace("", "search").fillna("search") == phase


def is_merged(rows: pd.DataFrame) -> pd.Series:
    """Return a mask of the models that were merged from models of other trials, shape (rows,)."""
    return _phase_is(rows, "merge")


def _has_candidates(rows: pd.DataFrame) -> pd.Series:
    return is_search(rows) | is_merged(rows)


def is_search(rows: pd.DataFrame) -> pd.Series:
    """Return a mask of the rows of trials of the search, shape (rows,)."""
    return _phase_is(rows, "search")


def numbers(rows: pd.DataFrame, column: str) -> pd.Series:
    """Return a column as floats. All values are NaN if the column is missing or contains text."""
    if column not in rows.columns or not pd.api.types.is_numeric_dtype(rows[column]):
        return pd.Series(np.nan, index=rows.index, dtype=np.float64)
    values = rows[column]
    return values if values.dtype == np.float64 else values.astype(np.float64)


def _check_exists(table: Path) -> None:
    """Raise an AnalysisError if a table was deleted: a sweep creates its tables right after its event log."""
    if not table.exists() and table.with_name("events.jsonl").exists() and not is_locked(table.parent):
        raise AnalysisError(
            f"{table} is missing, although the sweep has an event log. Rebuild the tables with:\n"
            f"  {resume_command(table.parent)}"
        )


def _has_front(path: Path) -> bool:
    try:
        return bool(json.loads(path.read_text(encoding="utf-8"))["front"])
    except FileNotFoundError:
        return False
    except (OSError, ValueError, KeyError, TypeError):
        return True


def finite_cell(row: pd.Series, column: str) -> float | None:
    """Return the number in one cell of a row; None if the cell is missing, infinite or text."""
    value = row.get(column)
    return float(value) if isinstance(value, (int, float, np.number)) and math.isfinite(value) else None


def thinned(rows: pd.DataFrame, max_rows: int) -> pd.DataFrame:
    """Return at most ``max_rows`` rows, evenly spaced, including the first and the last."""
    return rows if len(rows) <= max_rows else rows.iloc[np.linspace(0, len(rows) - 1, max_rows).round().astype(int)]


def typed_trials(
    path: Path, cells: pd.DataFrame, columns: Columns, sweep: str, *, external: bool = False
) -> pd.DataFrame:
    """Convert text cells to a table of trials. Missing required columns are added."""
    trials = typed_frame(path, cells, is_number=columns.is_number)
    missing = {name: float("nan") if name in ("lr", "seed") else "" for name in REQUIRED if name not in trials}
    trials = trials.assign(**missing)
    trials.insert(0, "sweep", sweep)
    trials.insert(1, "external", external)
    return trials


def concatenated(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Concatenate data frames. Missing cells are "" in text columns and NaN in numeric columns."""
    table = pd.concat([frame for frame in frames if len(frame)] or frames[:1], ignore_index=True)
    for frame in frames:
        for column in frame.columns:
            # Even a table without rows must have all columns, because readers use them.
            if column not in table.columns:
                table[column] = pd.Series(index=table.index, dtype=frame[column].dtype if len(table) == 0 else object)
    text_columns = [name for name in table.columns if not pd.api.types.is_numeric_dtype(table[name])]
    return table.assign(**{name: table[name].astype(object).where(table[name].notna(), "") for name in text_columns})


def _check_trials(path: Path, cells: pd.DataFrame) -> None:
    for line, trial_id, status, seed in cells[["trial_id", "status", "seed"]].itertuples():
        if not trial_id:
            raise AnalysisError(f"{path}, line {line}: the column 'trial_id' is empty")
        check_status(path, line, status)
        if not seed or not float(seed).is_integer():
            raise AnalysisError(f"{path}, line {line}: seed is '{seed}', expected a whole number")


def check_status(path: Path, line: int, status: str) -> None:
    if status not in STATUSES:
        raise AnalysisError(f"{path}, line {line}: status is '{status}', expected one of {', '.join(STATUSES)}")


def _read_courses(out: Path, sweep: str, columns: Columns) -> Iterator[pd.DataFrame]:
    """Yield the rows of history.csv and of auto_lr.csv, sorted by trial and step."""
    for path, is_number in ((out / "history.csv", columns.is_number), (out / "auto_lr.csv", _UPDATE.__contains__)):
        cells, _ = read_rows(path, required=("trial_id", "step"))
        yield _sorted_by_step(typed_frame(path, cells, is_number=is_number), sweep)


def _no_rows(*columns: str) -> pd.DataFrame:
    return pd.DataFrame({name: pd.Series(dtype=object) for name in ("sweep", *columns)})


def _read_candidates(out: Path, sweep: str, columns: Columns) -> pd.DataFrame:
    """Read the rows of candidates.csv, sorted by trial and step. The path of a deleted checkpoint becomes empty."""
    path = out / "candidates.csv"
    cells, _ = read_rows(path, required=_CANDIDATE)
    frame = typed_frame(path, cells, is_number=lambda name: name == "epoch" or columns.is_number(name))
    frame = _sorted_by_step(frame, sweep)
    existing = [folder if folder and (out / folder).is_dir() else "" for folder in frame["checkpoint"]]
    return frame.assign(checkpoint=pd.Series(existing, dtype=object))


def _sorted_by_step(rows: pd.DataFrame, sweep: str) -> pd.DataFrame:
    rows = rows.drop_duplicates(["trial_id", "step"], keep="last")
    rows = rows.sort_values(["trial_id", "step"], kind="stable", ignore_index=True)
    rows.insert(0, "sweep", sweep)
    return rows


def _without_last_epoch(trials: pd.DataFrame, candidates: pd.DataFrame) -> tuple[str, ...]:
    """Return the ids of the finished trials whose last epoch is not in candidates.csv, except for reused trials."""
    if "steps" not in trials:
        return ()
    finished = trials[(trials["status"] == "finished") & ~is_reused(trials)]
    evaluated = set(zip(candidates["trial_id"], candidates["step"], strict=True))
    return tuple(key[0] for key in zip(finished["trial_id"], finished["steps"], strict=True) if key not in evaluated)


def _model_rows(trials: pd.DataFrame, candidates: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each model: the settings of its trial, and the values measured at its epoch."""
    keys = ["sweep", "trial_id"]
    evaluated = trials[keys].merge(candidates[keys].drop_duplicates(), how="left", indicator=True)["_merge"] == "both"
    unlisted = trials[~evaluated.to_numpy() & (trials["status"] == "finished").to_numpy()]
    unlisted = unlisted.assign(epoch=numbers(unlisted, "epochs_done"), step=numbers(unlisted, "steps"))
    if not evaluated.any():
        return unlisted
    candidate_columns = [name for name in candidates.columns if name in trials.columns and name not in keys]
    settings = trials.drop(columns=[*candidate_columns, "status"])
    # A copy has no fragments. pandas warns if a column is added to a fragmented table.
    rows = candidates.merge(settings, on=keys).copy().assign(status="finished")
    # The checkpoint and the interpolation in the trial's own row are those of its last epoch.
    end_columns = [name for name in ("checkpoint", "interpolation") if name in trials.columns]
    ends = trials.loc[trials["status"] == "finished", [*keys, "steps", *end_columns]]
    last_epochs = rows[[*keys, "step"]].merge(ends, "left", left_on=[*keys, "step"], right_on=[*keys, "steps"])
    rows["checkpoint"] = rows["checkpoint"].where(rows["checkpoint"] != "", last_epochs["checkpoint"].fillna(""))
    if "interpolation" in end_columns:
        rows["interpolation"] = last_epochs["interpolation"]
    rows["epochs_done"], rows["steps"] = rows["epoch"], rows["step"]
    added = [name for name in candidates.columns if name not in ("epoch", "step", *trials.columns)]
    return pd.concat([rows, unlisted], ignore_index=True)[["epoch", "step", *trials.columns, *added]].copy()
