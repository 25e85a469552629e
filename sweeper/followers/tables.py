"""Write trials.csv, history.csv, candidates.csv and auto_lr.csv from the events of a sweep."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sweeper.store.event_log import Follower
from sweeper.store.events import Event, MetricsMeasured, TrialEnded, TrialReported, TrialRequeued
from sweeper.store.state import SweepState, Trial
from sweeper.store.tables import CsvTable, ResultTables, Row
from trainables.run.reports import EpochReport
from trainables.worker.candidates import candidate_folder

FindCheckpoint = Callable[[Trial, EpochReport], str]
"""Returns the folder of an epoch's model relative to the sweep's folder, or "" if there is no model."""


class TableWriter(Follower):
    """Appends rows to the tables while trials run. Rewrites the tables if written rows have changed."""

    def __init__(
        self,
        tables: ResultTables,
        find_checkpoint: FindCheckpoint,
        *,
        every_epoch: bool,
        is_deleted: Callable[[str], bool] | None = None,
    ) -> None:
        """``is_deleted`` returns whether ``--keep-checkpoints`` has deleted a model; None if it is not given."""
        self._tables = tables
        self._is_deleted = is_deleted
        self._find_checkpoint = find_checkpoint
        self._every_epoch = every_epoch
        # The rows to write. The reports of a trial are written before its row of trials.csv.
        self._rows: dict[CsvTable, list[Row]] = {
            table: [] for table in (tables.history, tables.auto_lr, tables.candidates, tables.trials)
        }
        self._stale = False

    def catch_up(self, state: SweepState) -> None:
        """Rewrite the tables at the next :meth:`flush`, because a killed driver may not have written all rows."""
        self._stale = True

    def apply(self, event: Event, state: SweepState) -> None:
        """Queue the rows of an event. If the event changes rows that are already written, mark the tables as stale."""
        is_limit_due = isinstance(event, TrialEnded) and self._is_deleted is not None
        if is_limit_due or isinstance(event, TrialRequeued | MetricsMeasured):
            self._stale = True
        if self._stale:
            return
        if isinstance(event, TrialReported):
            self._add_history(state.trials[event.trial_id], [event.report])
            self._add_candidates(state.trials[event.trial_id], [event.report], self._new_checkpoint)
        elif isinstance(event, TrialEnded):
            self._rows[self._tables.trials].append(state.trials[event.trial_id].row())

    def flush(self, state: SweepState) -> None:
        """Write the queued rows. If the tables are stale, rewrite all tables.

        Raises:
            OSError: writing to the disk failed. The remaining rows stay queued.
        """
        if self._stale:
            for rows in self._rows.values():
                rows.clear()
            for trial_id in sorted(state.trials):
                trial = state.trials[trial_id]
                self._add_history(trial, trial.reports)
                self._add_candidates(trial, trial.candidates(), self._find_checkpoint)
                if trial.outcome is not None:
                    self._rows[self._tables.trials].append(self._trial_row(trial))
        for table, rows in self._rows.items():
            if not self._stale:
                if rows:
                    table.append(rows)
            elif rows or table is self._tables.trials or table.path.is_file():
                table.rewrite(rows)
            rows.clear()
        self._stale = False

    def rewrite(self, state: SweepState) -> None:
        self._stale = True
        self.flush(state)

    def _add_history(self, trial: Trial, reports: Iterable[EpochReport]) -> None:
        for report in reports:
            self._rows[self._tables.history].append({"trial_id": trial.id, "phase": str(trial.phase), **report.row()})
            self._rows[self._tables.auto_lr] += [{"trial_id": trial.id, **update} for update in report.updates]

    def _add_candidates(self, trial: Trial, reports: Iterable[EpochReport], find_checkpoint: FindCheckpoint) -> None:
        if self._every_epoch and trial.phase.has_candidates:
            self._rows[self._tables.candidates] += [
                {"trial_id": trial.id, **report.row(), "checkpoint": find_checkpoint(trial, report)}
                for report in reports
                if report.evaluated
            ]

    def _trial_row(self, trial: Trial) -> Row:
        """Return the trial's row of trials.csv. The cell of a deleted checkpoint is empty."""
        row = trial.row()
        if self._is_deleted is not None and row.get("checkpoint") and self._is_deleted(row["checkpoint"]):
            row["checkpoint"] = None
        return row

    def _new_checkpoint(self, trial: Trial, report: EpochReport) -> str:
        return candidate_folder(trial.id, report.epoch) if report.is_stored else self._find_checkpoint(trial, report)
