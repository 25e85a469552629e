"""The table of trials that every figure and number is computed from: trials.csv and history.csv of some sweeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.errors import AnalysisError as AnalysisError
from analysis.tables.csv_rows import CsvRows, read_rows
from analysis.tables.typed_columns import typed_frame

STATUSES = ("finished", "stopped", "diverged", "failed")
ATTAIN_NOTHING = ("diverged", "stopped")
"""How a trial ends that ran and whose outcome is that it attains nothing; a failed one has no outcome."""
REQUIRED = ("trial_id", "spec_hash", "model", "dataset", "method", "lr", "seed", "status", "checkpoint", "error")
_TEXT = frozenset(REQUIRED) - {"lr", "seed"} | {"auto_lr", "optimizer", "target_key", "worker", "dtype"}
_METRICS = frozenset(
    {"steps", "epochs_done", "forget_loss", "retain_loss", "forget_loss_capped", "verbmem", "utility", "truth_ratio"}
    | {"forget_accuracy", "retain_accuracy", "test_accuracy", "train_seconds", "eval_seconds", "wall_seconds"}
)


@dataclass(frozen=True, slots=True, eq=False)
class TrialTable:
    """All trials that have ended.

    Attributes:
        trials: one row per trial, the columns of trials.csv behind a column ``sweep``.
        history: one row per report, the columns of history.csv behind a column ``sweep``; also of running trials.
        spec_columns: the columns that say what a trial was asked to do: those between ``spec_hash`` and ``status``.
        notes: what was left out while reading, in sentences.
    """

    trials: pd.DataFrame
    history: pd.DataFrame
    spec_columns: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def read(cls, out: Path, *, sweep: str = "") -> TrialTable:
        """The tables in a sweep's folder, also while the sweep runs: a table that is not there yet is empty.

        Of two rows with one trial id the first counts, as it does when a sweep is resumed. ``sweep`` is the value of
        the column ``sweep``.

        Raises:
            AnalysisError: a file cannot be read; says which, where, and what was expected.
        """
        path = out / "trials.csv"
        rows = read_rows(path, required=REQUIRED)
        rows = rows if rows.columns else CsvRows(REQUIRED, torn=rows.torn)
        trials = typed_frame(path, rows, text=_TEXT, numeric=_METRICS | {"lr", "seed"})
        _check_trials(path, rows)
        notes = ["the last line of trials.csv is incomplete and was left out"] if rows.torn else []
        doubled = trials["trial_id"].duplicated()
        if doubled.any():
            names = ", ".join(sorted(set(trials.loc[doubled, "trial_id"])))
            notes.append(f"trials.csv has more than one row for trial {names}: the first counts")
        trials = trials[~doubled].reset_index(drop=True)
        trials.insert(0, "sweep", sweep)
        names_before_status = rows.columns[: rows.columns.index("status")]
        spec_columns = tuple(name for name in names_before_status if name not in ("trial_id", "spec_hash"))
        return cls(trials, read_history(out / "history.csv", sweep), spec_columns, tuple(notes))

    @classmethod
    def merge(cls, tables: Sequence[TrialTable]) -> TrialTable:
        """Several sweeps as one table; a trial is then named by (sweep, trial_id).

        Raises:
            AnalysisError: two of the tables have the same value in the column ``sweep``.
        """
        names = [name for table in tables for name in table.trials["sweep"].unique()]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise AnalysisError(f"two sweeps are called '{twice[0]}': give each its own name to merge them")
        return cls(
            concatenated([table.trials for table in tables]),
            concatenated([table.history for table in tables]),
            tuple(dict.fromkeys(name for table in tables for name in table.spec_columns)),
            tuple(note for table in tables for note in table.notes),
        )

    def renamed(self, name: Callable[[str], str], checkpoint: Callable[[str], str]) -> TrialTable:
        """The same table with other trial ids and other paths of the checkpoints that there are."""
        trials = self.trials.assign(
            trial_id=self.trials["trial_id"].map(name),
            checkpoint=self.trials["checkpoint"].map(lambda path: checkpoint(path) if path else ""),
        )
        history = self.history.assign(trial_id=self.history["trial_id"].map(name))
        return TrialTable(trials, history, self.spec_columns, self.notes)

    @property
    def finished(self) -> pd.DataFrame:
        """The trials that ran to their end."""
        return self.with_status("finished")

    def with_status(self, status: str) -> pd.DataFrame:
        """The trials that ended in one of :data:`STATUSES`."""
        return self.trials[self.trials["status"] == status]

    def history_of(self, trial_id: str, *, sweep: str | None = None) -> pd.DataFrame:
        """The reports of one trial in the order of their steps; empty if it made none.

        Raises:
            AnalysisError: the trial is in several sweeps and ``sweep`` does not say which is meant.
        """
        rows = self.history[self.history["trial_id"] == trial_id]
        if sweep is not None:
            rows = rows[rows["sweep"] == sweep]
        elif rows["sweep"].nunique() > 1:
            raise AnalysisError(f"trial {trial_id} is in the sweeps {', '.join(rows['sweep'].unique())}: say which")
        return rows

    @property
    def running(self) -> tuple[str, ...]:
        """The trials that have reported and have not ended."""
        ended = set(zip(self.trials["sweep"], self.trials["trial_id"], strict=True))
        begun = dict.fromkeys(zip(self.history["sweep"], self.history["trial_id"], strict=True))
        return tuple(trial_id for sweep, trial_id in begun if (sweep, trial_id) not in ended)


def concatenated(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The rows of all frames; a column of text that some of them lack is "" there, any other NaN."""
    whole = pd.concat([frame for frame in frames if len(frame)] or frames[:1], ignore_index=True)
    for frame in frames:
        for column in frame.columns:
            # A pooled table of nothing still has the columns that its readers ask for.
            if column not in whole.columns:
                whole[column] = pd.Series(index=whole.index, dtype=frame[column].dtype if len(whole) == 0 else object)
    text = [name for name in whole.columns if name in _TEXT or name == "sweep"]
    return whole.assign(**{name: whole[name].astype(object).where(whole[name].notna(), "") for name in text})


def _check_trials(path: Path, rows: CsvRows) -> None:
    status, trial_id, seed = (rows.columns.index(name) for name in ("status", "trial_id", "seed"))
    for row in rows.rows:
        if not row.cells[trial_id]:
            raise AnalysisError(f"{path}, line {row.line}: trial_id is empty")
        if row.cells[status] not in STATUSES:
            raise AnalysisError(
                f"{path}, line {row.line}: status is '{row.cells[status]}', expected one of {', '.join(STATUSES)}"
            )
        if not row.cells[seed] or not float(row.cells[seed]).is_integer():
            raise AnalysisError(f"{path}, line {row.line}: seed is '{row.cells[seed]}', expected a whole number")


def read_history(path: Path, sweep: str) -> pd.DataFrame:
    """The reports, by trial and step. A restarted worker may repeat a step; the later report counts."""
    required = ("trial_id", "step")
    rows = read_rows(path, required=required)
    rows = rows if rows.columns else CsvRows(required)
    frame = typed_frame(path, rows, text={"trial_id"}, numeric=_METRICS | {"step", "epoch", "lr", "c_t", "seconds"})
    frame = frame.drop_duplicates(["trial_id", "step"], keep="last")
    frame = frame.sort_values(["trial_id", "step"], kind="stable", ignore_index=True)
    frame.insert(0, "sweep", sweep)
    return frame
