"""Send the missing records of a sweep to MLflow: runs, logged models, parameters, tags, metrics and artifacts.

No file stores which records were sent; MLflow is queried instead. The tag ``sweep_id`` identifies the runs of a sweep.
The last step of a run's metrics shows which reports of the trial were sent. The tag ``delivered`` shows that all
metrics and artifacts of the run were sent. Requests may be repeated, because MLflow ignores a metric value that it
already has.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ParamSpec

from sweeper.followers.mlflow.model_delivery import ModelDelivery
from sweeper.followers.mlflow.models import Checkpoints
from sweeper.followers.mlflow.runs import (
    DELIVERED,
    MLFLOW_STATUS,
    NOTE,
    PARETO,
    SWEEP,
    NewRun,
    SweepEnd,
    TrackedSweep,
    end_tags,
    ended_at,
    finite_metrics,
    fit_tags,
    milliseconds,
)
from sweeper.followers.mlflow.store import (
    ExperimentStore,
    RefusedError,
    UnavailableError,
    is_refusal,
    plain_reason,
)
from sweeper.followers.mlflow.stored import StoredRun
from sweeper.store.columns import HISTORY_METRICS, OUTCOME_METRICS
from sweeper.store.event_log import EventLog
from sweeper.store.events import TrialRequeued
from sweeper.store.state import Stage, SweepState, Trial
from trainables.run.reports import EpochReport

_PER_REQUEST = max(1, 1000 // len(HISTORY_METRICS))  # reports in a request; MLflow accepts up to 1,000 metrics
_ATTEMPTS = 3  # a run is skipped after this many failed requests, if the store answers
_ANSWERS = "answers.json"
_MODELS = "models"  # the key of requests for all models
_RUNNING = "running"
_P = ParamSpec("_P")
logger = logging.getLogger(__name__)


class Attempts:
    """Makes requests to MLflow. After a refused request or repeated failures, skips all requests with the same key.

    Attributes:
        refused: maps the key of each skipped run or model to the reason.
        stopped: if true, no more requests are made.
    """

    def __init__(self, store: ExperimentStore) -> None:
        self.refused: dict[str, str] = {}
        self.stopped = False
        self._store = store
        self._failures: dict[str, int] = {}

    def make(self, key: str, action: Callable[_P, None], *args: _P.args, **kwargs: _P.kwargs) -> None:
        """Make a request by calling ``action``, unless requests for the run or model ``key`` are skipped.

        If the request fails and a later attempt may succeed, raise the error.
        """
        if key in self.refused:
            return
        if self.stopped:
            raise UnavailableError("the time limit for sending records was reached")
        try:
            action(*args, **kwargs)
        except Exception as error:
            failures = self._failures.get(key, 0) + 1
            self._failures[key] = failures
            is_skipped = is_refusal(error) or (failures >= _ATTEMPTS and self._store.answers())
            if not is_skipped:
                raise
            reason = plain_reason(error)
            if not self.refused:  # close() reports the number of all missing records
                logger.warning("MLflow does not accept records of %s: %s", _owner(key), reason)
            self.refused[key] = reason
        else:
            self._failures.pop(key, None)


class Delivery:
    """Sends the records of one sweep to MLflow. Most fields cache what MLflow already has.

    ``is_awaited`` is a function that takes a trial id, and returns whether files of this trial must still be downloaded
    from object storage.
    """

    def __init__(
        self,
        log: EventLog,
        sweep: TrackedSweep,
        store: ExperimentStore,
        checkpoints: Checkpoints,
        is_awaited: Callable[[str], bool],
    ) -> None:
        self.attempts = Attempts(store)
        self.sweep_end: SweepEnd | None = None
        self._has_ended = False  # whether the end of the sweep was sent
        self._log = log
        self._sweep = sweep
        self._store = store
        self._is_awaited = is_awaited
        self._models = ModelDelivery(sweep, store, checkpoints)
        self._runs: dict[str, StoredRun] = {}
        self._knows_all_runs = False  # whether _runs contains all runs that MLflow has
        # Unlike the log's state, this state contains only events on disk. Only the tracker's thread uses it.
        self._state = SweepState()
        self._applied = 0  # number of applied events
        self._repeated: set[str] = set()  # trials that ran more than once

    @property
    def sweep_run_id(self) -> str | None:
        """MLflow's id of the sweep's parent run, or None if MLflow was never reached."""
        return self._runs[SWEEP].id if SWEEP in self._runs else None

    def send_missing(self, is_urgent: Callable[[], bool]) -> None:
        """Send all records that MLflow lacks, artifacts last.

        Before the artifacts of each trial are sent, ``is_urgent()`` is called. If it returns True, the next call of
        this method sends the remaining artifacts.

        Raises:
            UnavailableError, MLflow's own errors: the store cannot be used now. The next call sends the remaining
            records.
        """
        self._connect()
        self._knows_all_runs = False  # if a request fails, MLflow may have created a run anyway
        self._send(is_urgent)
        self._knows_all_runs = True

    def _send(self, is_urgent: Callable[[], bool]) -> None:
        attempt = self.attempts.make
        end = self.sweep_end
        records = self._log.records[self._applied :]
        for record in records:
            self._state.apply(record)
            if isinstance(record.event, TrialRequeued):
                self._repeated.add(record.event.trial_id)
        self._applied += len(records)
        attempt(SWEEP, self._begin_sweep)
        for trial in self._state.trials.values():
            if self._may_lack_records(trial):
                attempt(trial.id, self._send_trial, trial)
        attempt(_MODELS, self._send_models, is_end=end is not None)
        if end is not None:
            attempt(SWEEP, self._end_sweep, end)
        if end is not None and end.front is not None:
            trial_ids = {trial_id for trial_id, _ in end.front}
            for key in self._runs.keys() - {SWEEP}:
                attempt(key, self._tag_front, self._runs[key], is_on_front=key in trial_ids)
            if end.recommended is not None:
                attempt(_MODELS, self._models.renew, end.recommended, self._runs)
            attempt(_MODELS, self._models.mark_frontier, end.front, end.recommended)
        for trial in self._state.ended_trials:
            if is_urgent():
                return
            if not self._is_awaited(trial.id):
                if not self._is_delivered(trial):
                    attempt(trial.id, self._send_artifacts, trial)
                self._send_files([trial], only_last=True)
        if end is not None:
            self._send_files([trial for trial in self._state.trials.values() if not self._is_awaited(trial.id)])
            if end.recommended is not None:
                attempt(_MODELS, self._models.recommend, end.recommended)
            attempt(SWEEP, self._send_sweep_artifacts, end)

    def pending(self) -> int:
        """Return the number of records that MLflow lacks: reports, ends of trials, models, and the sweep's own run."""
        trials = [trial for trial in list(self._log.state.trials.values()) if not self._is_delivered(trial)]
        sent_steps = {key: run.step for key, run in list(self._runs.items())}
        reports = 0
        for trial in trials:
            sent_step = sent_steps.get(trial.id, -1)
            reports += sum(report.step > sent_step for report in list(trial.reports))
        ended = sum(trial.outcome is not None for trial in trials)
        is_open = SWEEP not in self._runs or not self._runs[SWEEP].sent or self.sweep_end is not None
        models = self._models.without_files(self._log.state.ended_trials, only_last=not self._has_ended)
        return ended + reports + len(list(models)) + (_MODELS in self.attempts.refused) + is_open

    def _connect(self) -> None:
        self._store.connect()
        if self._knows_all_runs:
            return
        runs = self._store.runs(self._sweep.id)
        if SWEEP in runs and not runs[SWEEP].active:
            remedy = f"mlflow runs restore --run-id {runs[SWEEP].id}"
            raise UnavailableError(f"the sweep's run was deleted in MLflow; restore the run with `{remedy}`")
        for key in runs.keys() & self._runs.keys():
            self._runs[key].models |= runs[key].models
        self._runs = runs | self._runs
        self.attempts.make(_MODELS, self._models.connect)

    # Runs of trials -------------------------------------------------------------------------------------------------

    def _is_delivered(self, trial: Trial) -> bool:
        return trial.id in self._runs and trial.outcome is not None and _has_artifacts(self._runs[trial.id], trial)

    def _may_lack_records(self, trial: Trial) -> bool:
        """Return whether MLflow may lack the start, a report or the end of the trial."""
        run = self._runs.get(trial.id)
        if run is not None and trial.outcome is not None:
            return run.sent != ended_at(trial) and not self._is_delivered(trial)
        # The reports of a reused trial are recorded without a start.
        return trial.stage is not Stage.PROPOSED or bool(trial.reports)

    def _send_trial(self, trial: Trial) -> None:
        run = self._runs.get(trial.id)
        if run is None or run.sent != _RUNNING:
            run = self._begin(self._sweep.trial_run(trial))
            run.sent = _RUNNING
        self._log_reports(run, [report for report in trial.reports if report.step > run.step])
        if trial.outcome is not None:
            metrics = finite_metrics(trial.outcome.row(), OUTCOME_METRICS)
            self._end(run, metrics, tags=end_tags(trial.outcome), end_time=milliseconds(ended_at(trial)))
            run.sent = ended_at(trial)

    def _begin(self, new: NewRun) -> StoredRun:
        if new.key not in self._runs:
            parent_tags = {}
            if new.parent is not None:
                if new.parent not in self._runs:
                    raise RefusedError(f"MLflow has no run for {_owner(new.parent)}")
                parent_tags["mlflow.parentRunId"] = self._runs[new.parent].id
            self._runs[new.key] = self._store.create_run(new, parent_tags)
        run = self._runs[new.key]
        self._store.begin(run, new)
        return run

    def _log_reports(self, run: StoredRun, reports: Sequence[EpochReport]) -> None:
        for start in range(0, len(reports), _PER_REQUEST):
            batch = reports[start : start + _PER_REQUEST]
            points: list[tuple[str, float, int, int]] = []
            for report in batch:
                time_ms = milliseconds(report.reported_at)
                metrics = finite_metrics(report.row(), HISTORY_METRICS)
                points += [(name, value, time_ms, report.step) for name, value in metrics.items()]
            self._store.log_metrics(run, points)
            run.step = batch[-1].step

    def _end(self, run: StoredRun, metrics: Mapping[str, float], *, tags: Mapping[str, object], end_time: int) -> None:
        changed = {name: value for name, value in metrics.items() if run.metrics.get(name) != value}
        step = max(run.step, 0)
        self._store.log_metrics(run, [(name, value, end_time, step) for name, value in changed.items()])
        status = MLFLOW_STATUS.get(str(tags["status"]), "FAILED")
        self._store.end(run, status=status, tags=fit_tags(tags), end_time=end_time)

    def _send_artifacts(self, trial: Trial) -> None:
        run = self._runs[trial.id]
        items = self._sweep.out / "items" / f"{trial.id}.json"
        if items.is_file():
            self._store.log_artifact(run, items, artifact_path="")
        self._store.set_tags(run, {DELIVERED: ended_at(trial)})

    # Models -----------------------------------------------------------------------------------------------------------

    def _send_models(self, *, is_end: bool) -> None:
        """Send the models of ended trials or, at the end of the sweep, of all trials. Remove the other models.

        The files of an intermediate epoch are sent at the end, because another trial may still dominate the epoch.
        """
        trials = self._state.trials.values()
        self._models.update(trials)
        for trial in trials if is_end else self._state.ended_trials:
            models = self._models.incomplete(trial)
            if models and trial.id in self._runs:
                run, is_repeated = self._runs[trial.id], trial.id in self._repeated
                self.attempts.make(trial.id, self._models.send, run, models, is_repeated=is_repeated)
        for key in self._models.removed():
            self.attempts.make(key, self._models.remove, key)

    def _send_files(self, trials: Iterable[Trial], *, only_last: bool = False) -> None:
        for key in list(self._models.without_files(trials, only_last=only_last)):
            self.attempts.make(key, self._models.send_files, key)

    # The run of the sweep ---------------------------------------------------------------------------------------------

    def _begin_sweep(self) -> None:
        if SWEEP not in self._runs or not self._runs[SWEEP].sent:
            self._store.save_view(self._sweep.id, self._sweep.view)
            self._begin(self._sweep.run()).sent = _RUNNING

    def _end_sweep(self, end: SweepEnd) -> None:
        metrics = finite_metrics(end.metrics, end.metrics.keys())
        tags = {**self._sweep_tags(end), "status": end.status}
        self._end(self._runs[SWEEP], metrics, tags=tags, end_time=end.end_time)

    def _sweep_tags(self, end: SweepEnd) -> dict[str, object]:
        parts = [str(end.tags.get(NOTE, ""))]
        model = self._models.recommended()
        if model is not None:
            name = f"epoch {model.tags['epoch']} of trial {model.tags['trial_id']}"
            parts.append(f"Recommended model: [{name}]({self._store.address(model)})")
        return {**end.tags, NOTE: "\n\n".join(filter(None, parts))}

    def _tag_front(self, run: StoredRun, *, is_on_front: bool) -> None:
        """Set the tag ``pareto`` of a trial's run if an epoch of the trial is on the frontier, otherwise reset it."""
        if is_on_front or PARETO in run.tags:
            self._store.set_tags(run, {PARETO: "true" if is_on_front else "false"})

    def _send_sweep_artifacts(self, end: SweepEnd) -> None:
        run = self._runs[SWEEP]
        self._store.set_tags(run, fit_tags(self._sweep_tags(end)))
        for path in end.artifacts:
            self._store.log_artifact(run, path, artifact_path=path.name if path.is_dir() else "")
        for key in end.tables.keys() & self._runs.keys():
            self._store.log_table(self._runs[key], _ANSWERS, end.tables[key])
        self.sweep_end = None
        self._has_ended = True


def _has_artifacts(run: StoredRun, trial: Trial) -> bool:
    return run.tags.get(DELIVERED) == ended_at(trial)


def _owner(key: str) -> str:
    return {SWEEP: "the sweep", _MODELS: "the models"}.get(key, f"trial {key}")
