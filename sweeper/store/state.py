"""The state of a sweep, computed only from its events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from sweeper.store.events import (
    Merge,
    MetricsMeasured,
    OptunaTrial,
    Phase,
    Record,
    SearchStarted,
    Settings,
    StopRequested,
    TrialCut,
    TrialEnded,
    TrialEvent,
    TrialPromoted,
    TrialProposed,
    TrialReported,
    TrialRequeued,
    TrialReused,
    TrialStarted,
)
from trainables.run.reports import EpochReport, Outcome
from trainables.worker.failures import is_infrastructure_failure


class Stage(StrEnum):
    PROPOSED = "proposed"
    RUNNING = "running"
    PAUSED = "paused"
    ENDED = "ended"


@dataclass(slots=True)
class Trial:
    """A trial as its events describe it. The rows of the tables are built from these fields.

    ``measured`` maps a step to the metrics of this step's checkpoint that were measured after the search had ended.
    ``measured_sets`` has the step and the name of each metric set that was measured, even if no metric has a value.
    ``cut`` is the scheduler's decision that the trial does not continue after its last report. ``outcome`` is None
    until the trial ends. ``started_at`` is the time of the last start, in seconds since 1970. ``confirms`` is the id of
    the trial whose configuration a confirm trial trains again. ``merge`` says how the model of a merge trial is made.
    """

    id: str
    settings: Settings
    search: OptunaTrial
    phase: Phase = Phase.SEARCH
    confirms: str = ""
    merge: Merge | None = None
    stage: Stage = Stage.PROPOSED
    reused_from: str = ""
    stop_requested: bool = False
    cut: TrialCut | None = None
    started_at: float = 0.0
    reports: list[EpochReport] = field(default_factory=list)
    measured: dict[int, Mapping[str, float]] = field(default_factory=dict)
    measured_sets: set[tuple[int, str]] = field(default_factory=set)
    outcome: Outcome | None = None

    @property
    def last_step(self) -> int:
        """The step of the last report, or -1."""
        return self.reports[-1].step if self.reports else -1

    @property
    def last_epoch(self) -> float:
        """The epoch of the last report, or 0."""
        return self.reports[-1].epoch if self.reports else 0.0

    @property
    def has_result(self) -> bool:
        """Whether the trial ended without an infrastructure failure."""
        outcome = self.outcome
        return outcome is not None and not is_infrastructure_failure(outcome.status, outcome.error)

    def row(self) -> dict[str, Any]:
        """Return the trial's row of trials.csv."""
        outcome = {} if self.outcome is None else self.outcome.row()
        origin = {"phase": str(self.phase), "confirms": self.confirms or None, "reused_from": self.reused_from or None}
        merge = {} if self.merge is None else self.merge.row()
        return {"trial_id": self.id, **self.settings, **outcome, **origin, **merge}

    def candidates(self) -> Iterator[EpochReport]:
        """Yield the report of each evaluated epoch, with the metrics that were measured after the search had ended."""
        for report in self.reports:
            if report.evaluated:
                yield replace(report, metrics={**report.metrics, **self.measured.get(report.step, {})})


@dataclass(slots=True)
class SweepState:
    """The state of a sweep. ``trials`` maps each id to its trial, in the order in which the trials were proposed.

    ``search`` contains the priors and the points to try first.
    """

    trials: dict[str, Trial] = field(default_factory=dict)
    ended: dict[str, None] = field(default_factory=dict)  # ids of ended trials, in the order in which they ended
    search: SearchStarted | None = None

    def apply(self, record: Record) -> None:
        """Update the state with one event. The resulting state depends only on the records and their order."""
        event = record.event
        if isinstance(event, SearchStarted):
            self.search = event
        elif isinstance(event, TrialProposed):
            self.trials[event.trial_id] = Trial(
                event.trial_id, event.settings, event.search, event.phase, event.confirms, event.merge
            )
        elif isinstance(event, TrialEvent):
            self._apply_to(self.trials[event.trial_id], event, record.time)

    def _apply_to(self, trial: Trial, event: TrialEvent, time: float) -> None:
        match event:
            case TrialReused(origin=origin):
                trial.reused_from = origin
            case TrialRequeued(step=step):
                trial.reports = [report for report in trial.reports if report.step <= step]
                trial.stage = Stage.PROPOSED if trial.cut is None else Stage.PAUSED
                trial.outcome = None
                trial.reused_from = ""
                trial.stop_requested = False
                self.ended.pop(trial.id, None)
            case TrialStarted():
                trial.stage = Stage.RUNNING
                trial.started_at = time
            case TrialReported(report=report):
                if report.step > trial.last_step:  # a restarted worker repeats reports
                    trial.reports.append(report)
                    trial.cut = None  # the decision was about an earlier report
            case TrialCut():
                trial.cut = event
                if event.waits:
                    trial.stage = Stage.PAUSED
            case TrialPromoted():
                trial.cut = None
            case TrialEnded(outcome=outcome):
                trial.stage = Stage.ENDED
                trial.outcome = outcome
                trial.stop_requested = False
                self.ended[trial.id] = None
            case StopRequested():
                trial.stop_requested = True
            case MetricsMeasured(step=step, metrics=metrics, metric_set=metric_set):
                trial.measured[step] = {**trial.measured.get(step, {}), **metrics}
                if metric_set is not None:
                    trial.measured_sets.add((step, metric_set))

    @property
    def ended_trials(self) -> list[Trial]:
        """The ended trials in the order in which they ended."""
        return [self.trials[trial_id] for trial_id in self.ended]

    def trials_of(self, phase: Phase) -> list[Trial]:
        """Return the trials of a phase, in the order in which they were proposed."""
        return [trial for trial in list(self.trials.values()) if trial.phase is phase]

    def ended_of(self, phase: Phase) -> list[Trial]:
        """Return the ended trials of a phase, in the order in which they ended."""
        return [trial for trial in self.ended_trials if trial.phase is phase]

    @property
    def outcomes(self) -> list[Outcome]:
        """The outcomes of the ended trials of the search, in the order in which they ended."""
        return [trial.outcome for trial in self.ended_of(Phase.SEARCH) if trial.outcome is not None]

    def at_stage(self, stage: Stage) -> list[Trial]:
        """Return the trials at a stage, in the order in which they were proposed."""
        return [trial for trial in self.trials.values() if trial.stage is stage]

    @property
    def trained_epochs(self) -> float:
        """The number of epochs that the search has trained. Epochs of reused and of confirm trials do not count."""
        return sum(trial.last_epoch for trial in self.trials_of(Phase.SEARCH) if not trial.reused_from)
