"""The state of a sweep, computed only from its events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sweeper.store.events import Event, Kind
from trainables.worker.failures import is_infrastructure_failure

Row = Mapping[str, Any]


class Phase(StrEnum):
    PROPOSED = "proposed"
    RUNNING = "running"
    PAUSED = "paused"
    ENDED = "ended"


@dataclass(slots=True)
class Trial:
    """A trial as its events describe it. The rows of the tables are built from these fields.

    ``search`` is the data that Optuna stores about the trial. ``measured`` maps a step to the metrics of this step's
    checkpoint that were measured after the search had ended. ``outcome`` is empty until the trial ends. ``started_at``
    is the time of the last start, in seconds since 1970.
    """

    id: str
    settings: Row
    search: Row = field(default_factory=dict)
    phase: Phase = Phase.PROPOSED
    reused_from: str = ""
    stop_requested: bool = False
    started_at: float = 0.0
    reports: list[Row] = field(default_factory=list)
    measured: dict[int, Row] = field(default_factory=dict)
    outcome: Row = field(default_factory=dict)

    @property
    def last_step(self) -> int:
        """The step of the last report, or -1."""
        return int(self.reports[-1]["step"]) if self.reports else -1

    @property
    def last_epoch(self) -> float:
        """The epoch of the last report, or 0."""
        return float(self.reports[-1]["epoch"] or 0.0) if self.reports else 0.0

    @property
    def has_result(self) -> bool:
        """Whether the trial ended without an infrastructure failure."""
        return bool(self.outcome) and not is_infrastructure_failure(self.outcome["status"], self.outcome.get("error"))

    def row(self) -> dict[str, Any]:
        return {"trial_id": self.id, **self.settings, **self.outcome}

    def candidates(self, reports: Sequence[Row] | None = None) -> Iterator[Row]:
        """Yield a row of candidates.csv, without the column ``checkpoint``, for each evaluated epoch."""
        if reports is None:
            reports = self.reports
        for report in reports:
            if report.get("evaluated", True):
                yield {"trial_id": self.id, **report, **self.measured.get(int(report["step"]), {})}


@dataclass(slots=True)
class SweepState:
    """The state of a sweep. ``trials`` maps each id to its trial, in the order in which the trials were proposed.

    ``search`` contains the priors and the points to try first.
    """

    trials: dict[str, Trial] = field(default_factory=dict)
    ended: dict[str, None] = field(default_factory=dict)  # ids of ended trials, in the order in which they ended
    search: Row = field(default_factory=dict)

    def clear(self) -> None:
        self.trials.clear()
        self.ended.clear()
        self.search = {}

    def apply(self, event: Event) -> None:
        """Update the state with one event. The resulting state depends only on the events and their order."""
        if event.kind is Kind.TRIAL_PROPOSED:
            trial = self.trials.setdefault(event.trial_id, Trial(event.trial_id, {}))
            trial.settings = event.payload["settings"]
            trial.search = event.payload.get("search", {})
        elif event.kind is Kind.SEARCH_STARTED:
            self.search = event.payload
        elif event.trial_id:
            self._apply_to(self.trials[event.trial_id], event)

    def _apply_to(self, trial: Trial, event: Event) -> None:
        match event.kind:
            case Kind.TRIAL_REUSED:
                trial.reused_from = event.payload["origin"]
            case Kind.TRIAL_REQUEUED:
                trial.reports = [item for item in trial.reports if int(item["step"]) <= event.payload["step"]]
                trial.phase = Phase.PROPOSED
                trial.outcome = {}
                trial.reused_from = ""
                trial.stop_requested = False
                self.ended.pop(trial.id, None)
            case Kind.TRIAL_STARTED:
                trial.phase = Phase.RUNNING
                trial.started_at = event.time
            case Kind.TRIAL_REPORTED:
                report = event.payload["report"]
                if int(report["step"]) > trial.last_step:  # a restarted worker repeats reports
                    trial.reports.append(report)
            case Kind.TRIAL_PAUSED:
                trial.phase = Phase.PAUSED
            case Kind.TRIAL_ENDED:
                trial.phase = Phase.ENDED
                trial.outcome = event.payload["outcome"]
                trial.stop_requested = False
                self.ended[trial.id] = None
            case Kind.STOP_REQUESTED:
                trial.stop_requested = True
            case Kind.METRICS_MEASURED:
                step = int(event.payload["step"])
                trial.measured[step] = {**trial.measured.get(step, {}), **event.payload["metrics"]}

    @property
    def ended_trials(self) -> list[Trial]:
        """The ended trials in the order in which they ended."""
        return [self.trials[trial_id] for trial_id in self.ended]

    def in_phase(self, phase: Phase) -> list[Trial]:
        """Return the trials in a phase, in the order in which they were proposed."""
        return [trial for trial in self.trials.values() if trial.phase is phase]

    @property
    def trained_epochs(self) -> float:
        """The number of epochs that the trials of this sweep have trained. Epochs of reused trials do not count."""
        return sum(trial.last_epoch for trial in self.trials.values() if not trial.reused_from)
