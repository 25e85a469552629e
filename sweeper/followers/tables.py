"""Write trials.csv, history.csv, candidates.csv and auto_lr.csv from the events of a sweep."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sweeper.store.event_log import Follower
from sweeper.store.events import Event, Kind
from sweeper.store.state import Row, SweepState, Trial
from sweeper.store.tables import CsvTable, ResultTables
from trainables.worker.candidates import candidate_folder

FindCheckpoint = Callable[[Trial, Row], str]
"""Returns the folder of an epoch's model relative to the sweep's folder, or "" if there is no model."""


class TableWriter(Follower):
    """Appends rows to the tables while trials run. Rewrites the tables if written rows have changed."""

    def __init__(self, tables: ResultTables, find_checkpoint: FindCheckpoint, *, every_epoch: bool) -> None:
        self._tables = tables
        self._find_checkpoint = find_checkpoint
        self._every_epoch = every_epoch
        # The rows to write. The reports of a trial are written before its row of trials.csv.
        self._rows: dict[CsvTable, list[Row]] = {
            table: [] for table in (tables.history, tables.auto_lr, tables.candidates, tables.trials)
        }
        self._stale = True

    def apply(self, event: Event, state: SweepState) -> None:
        """Queue the rows of an event. If the event changes rows that are already written, mark the tables as stale."""
        if event.kind in (Kind.TRIAL_REQUEUED, Kind.METRICS_MEASURED):
            self._stale = True
        if self._stale:
            return
        if event.kind is Kind.TRIAL_REPORTED:
            self._add_reports(state.trials[event.trial_id], [event.payload["report"]], self._new_checkpoint)
        elif event.kind is Kind.TRIAL_ENDED:
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
                self._add_reports(trial, trial.reports, self._find_checkpoint)
                if trial.outcome:
                    self._rows[self._tables.trials].append(trial.row())
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

    def _add_reports(self, trial: Trial, reports: Sequence[Row], find_checkpoint: FindCheckpoint) -> None:
        tables = self._tables
        id_cell = {"trial_id": trial.id}
        for report in reports:
            self._rows[tables.history].append({**id_cell, **report})
            self._rows[tables.auto_lr] += [{**id_cell, **update} for update in report.get("auto_lr") or []]
        if self._every_epoch:
            rows = trial.candidates(reports)
            self._rows[tables.candidates] += [{**row, "checkpoint": find_checkpoint(trial, row)} for row in rows]

    def _new_checkpoint(self, trial: Trial, row: Row) -> str:
        if row.get("stored"):  # the worker stored the model in object storage
            return candidate_folder(trial.id, row["epoch"])
        return self._find_checkpoint(trial, row)
