"""Write trials.csv, history.csv, candidates.csv and auto_lr.csv from the events of a sweep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sweeper.store.event_log import Follower
from sweeper.store.events import Event, Kind
from sweeper.store.state import Row, SweepState, Trial
from sweeper.store.tables import ResultTables
from trainables.worker.candidates import candidate_folder

FindCheckpoint = Callable[[Trial, Row], str]
"""Returns the model folder for a candidates.csv row, relative to the sweep's folder, or "" if there is none."""


class TableWriter(Follower):
    """Appends rows while trials run. Rewrites the tables, sorted by trial and step, if written rows have changed."""

    def __init__(self, tables: ResultTables, find_checkpoint: FindCheckpoint) -> None:
        self._tables = tables
        self._find_checkpoint = find_checkpoint
        self._stale = True

    def apply(self, event: Event, state: SweepState) -> None:
        """Queue the event's rows, or mark the tables as stale if written rows have changed."""
        if event.kind in (Kind.TRIAL_REQUEUED, Kind.METRICS_MEASURED):
            self._stale = True
        if self._stale:
            return
        if event.kind is Kind.TRIAL_REPORTED:
            report: dict[str, Any] = dict(event.payload["report"])
            if report.get("stored"):  # the worker stored the model in object storage
                checkpoint = candidate_folder(event.trial_id, report["epoch"])
            else:
                checkpoint = self._find_checkpoint(state.trials[event.trial_id], report)
            self._tables.add_report(event.trial_id, report, checkpoint=checkpoint)
        elif event.kind is Kind.TRIAL_ENDED:
            self._tables.add_trial(state.trials[event.trial_id].row())

    def flush(self, state: SweepState) -> None:
        """Write the queued rows, or rewrite all tables if they are stale.

        Raises:
            OSError: the disk cannot be written.
        """
        if not self._stale:
            self._tables.write()
            return
        trials = [state.trials[trial_id] for trial_id in sorted(state.trials)]
        tables = self._tables
        candidates = ((trial, row) for trial in trials for row in trial.candidates())
        tables.replace(
            {
                tables.history: [row for trial in trials for row in trial.history()],
                tables.auto_lr: [row for trial in trials for row in trial.auto_lr()],
                tables.candidates: [
                    {**row, "checkpoint": self._find_checkpoint(trial, row)} for trial, row in candidates
                ],
                tables.trials: [trial.row() for trial in trials if trial.outcome],
            }
        )
        self._stale = False

    def rewrite(self, state: SweepState) -> None:
        """Rewrite all tables.

        Raises:
            OSError: the disk cannot be written.
        """
        self._stale = True
        self.flush(state)
