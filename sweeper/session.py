"""What happens to the trials of a running sweep, told to everyone who must know, in the order that survives a crash.

For a trial that ends: its row is on disk first, then the search is told, then MLflow, then the display. A disk that is
full does not end the sweep: rows wait in memory and are written with the next event.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sweeper.columns import HISTORY_METRICS, OUTCOME_METRICS, PARAMETERS
from sweeper.display import Display
from sweeper.ledger import Ledger, Row
from sweeper.search import Proposal, SweepStudy
from sweeper.tracking import Tracker
from trainables.spec import TrialSpec

logger = logging.getLogger(__name__)


class SweepSession:
    """The driver's side of a sweep. Ray pickles what it is given; a session pickles to nothing."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        storage: Path,
        study: SweepStudy,
        tracker: Tracker,
        display: Display,
        make_spec: Callable[..., TrialSpec],
    ) -> None:
        self.ledger = ledger
        self._storage = storage
        self.study = study
        self.tracker = tracker
        self.display = display
        self._make_spec = make_spec
        self._specs: dict[str, TrialSpec] = {}
        self._started: set[str] = set()
        self._last_step: dict[str, int] = {}
        self._unwritten: list[Row] = []
        self._unwritten_history: list[Row] = []
        self._unwritten_updates: list[Row] = []

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return (object, ())

    @property
    def unwritten(self) -> int:
        """Rows of finished trials that could not be written to trials.csv so far."""
        return len(self._unwritten)

    def next_trial(self) -> tuple[Proposal, TrialSpec] | None:
        """The next trial to run and its spec, or None when there are no more."""
        proposal = self.study.ask()
        if proposal is None:
            return None
        spec = self._make_spec(proposal.config)
        self._specs[proposal.trial_id] = spec
        return proposal, spec

    def started(self, trial_id: str) -> None:
        """A worker has taken the trial."""
        spec = self._specs[trial_id]
        row = {"spec_hash": spec.spec_hash, **spec.row()}
        self._started.add(trial_id)
        self._track_start(trial_id, row)
        self.display.started(trial_id, row)

    def reported(self, trial_id: str, report: Mapping[str, Any]) -> None:
        """An epoch is done. A restarted worker may report steps again; they are the same and are left out."""
        step = int(report["step"])
        if step <= self._last_step.get(trial_id, -1):
            return
        self._last_step[trial_id] = step
        self._unwritten_history.append({"trial_id": trial_id, **report})
        self._unwritten_updates += [{"trial_id": trial_id, **update} for update in report.get("auto_lr", ())]
        self._write()
        self._track_report(trial_id, report)
        self.display.reported(trial_id, report)

    def ended(self, trial_id: str, outcome: Mapping[str, Any]) -> None:
        """The trial is over, however it ended; ``outcome`` has at least ``status``."""
        spec = self._specs[trial_id]
        row: Row = {"trial_id": trial_id, "spec_hash": spec.spec_hash, **spec.row(), **outcome}
        self._unwritten.append(row)
        self._write()
        try:
            self.study.tell(trial_id, row)
        finally:
            # A study that cannot be told now, its disk full, is put right from the row when the sweep is resumed.
            if trial_id not in self._started:
                self._track_start(trial_id, row)  # its worker died before Tune called it started
            self._track_end(row)
            self.display.ended(trial_id, row)
            remove_run_states(self._storage, trial_id)

    def send_missing(self, rows: Mapping[str, Mapping[str, str]]) -> None:
        """Send MLflow what it has not recorded of trials that ended before this session."""
        missing = {trial_id: row for trial_id, row in rows.items() if not self.tracker.has_ended(trial_id)}
        history = self.ledger.history.read() if missing else []
        for trial_id, row in missing.items():
            self._track_start(trial_id, row)
            for report in history:
                if report["trial_id"] == trial_id:
                    self._track_report(trial_id, report)
            self._track_end(row)

    def _track_start(self, trial_id: str, row: Mapping[str, Any]) -> None:
        tags = {"sweep": self.ledger.out.name} | {name: str(row[name]) for name in ("spec_hash", "method", "auto_lr")}
        self.tracker.trial_started(trial_id, params={name: row[name] for name in PARAMETERS}, tags=tags)

    def _track_report(self, trial_id: str, report: Mapping[str, Any]) -> None:
        metrics = {name: float(report[name]) for name in HISTORY_METRICS if report.get(name) not in (None, "")}
        self.tracker.trial_report(trial_id, step=int(report["step"]), metrics=metrics)

    def _track_end(self, row: Mapping[str, Any]) -> None:
        checkpoint = row.get("checkpoint")
        items = self.ledger.out / "items" / f"{row['trial_id']}.json"
        self.tracker.trial_ended(
            str(row["trial_id"]),
            status=str(row["status"]),
            metrics={name: float(row[name]) for name in OUTCOME_METRICS if row.get(name) not in (None, "")},
            checkpoint=self.ledger.out / str(checkpoint) if checkpoint else None,
            files=[items] if items.is_file() else [],
            error=str(row["error"]) if row.get("error") else None,
        )

    def _write(self) -> None:
        try:
            if self._unwritten_history:
                self.ledger.history.append(self._unwritten_history)
                self._unwritten_history.clear()
            if self._unwritten_updates:
                self.ledger.auto_lr.append(self._unwritten_updates)
                self._unwritten_updates.clear()
            if self._unwritten:
                self.ledger.trials.append(self._unwritten)
                self._unwritten.clear()
        except OSError as error:
            logger.warning("cannot write to %s: %s; keeping %d rows in memory", self.ledger.out, error, self.unwritten)


def run_state_folders(storage: Path, trial_id: str) -> list[Path]:
    """The folders with saved states of an unfinished trial, newest first, over all attempts at the sweep."""
    return sorted(storage.glob(f"*/{trial_id}/checkpoint_*"), key=lambda path: path.stat().st_mtime, reverse=True)


def remove_run_states(storage: Path, trial_id: str) -> None:
    """Delete the saved states of a trial that is over: for a large model each takes gigabytes."""
    for folder in run_state_folders(storage, trial_id):
        shutil.rmtree(folder, ignore_errors=True)
