"""Finalize a sweep: write the tables and the report, send the results to MLflow, and return a summary."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.errors import AnalysisError
from search_spaces.common.messages import counted, resume_command, some_of
from sweeper.driver.confirmation import left_out
from sweeper.driver.open_sweep import OpenSweep
from sweeper.execution.shutdown import Interrupted, is_interrupted
from sweeper.followers.mlflow.runs import SWEEP, end_of_sweep
from sweeper.search.audit import pool_models
from sweeper.search.limits import End
from sweeper.search.unmeasured import unmeasured_models
from sweeper.settings.names import STUDY
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.settings.tracking_uri import redact_uri
from sweeper.store.events import Phase, SweepEnded
from sweeper.store.folder import SweepError
from sweeper.store.tables import TABLES
from trainables.run.reports import Status

_VERDICT = "lr_study.json"
_PARETO = ("pareto.json", "pareto.png", "pareto.svg")
_AUDIT = ("audit.json", "audit.csv")
_ARTIFACTS = ("sweep.json", *TABLES, *_PARETO, *_AUDIT, _VERDICT, "lr_study.csv", "report.html", "figures")
"""The files and folders in the sweep's folder that are uploaded to the sweep's MLflow run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The outcome of a sweep. The fields are the keys of ``--json``.

    Attributes:
        trials: the number of ended trials of the search.
        asked: the number of requested trials.
        status: maps each status to the number of ended trials of the search with this status.
        front: the number of epochs on the frontier.
        front_trials: the number of trials with an epoch on the frontier.
        reused: the number of trials whose results were copied from previous sweeps.
        ended_because: the reason why the sweep ended early, or None.
        further: the option that lets ``resume`` run the remaining trials, such as ``--until none``; "" if no option is
            needed, and None if no trials remain that ``resume`` could run.
        run_again: the number of trials that ``resume`` runs after an infrastructure failure, such as a full disk.
        unmeasured: the number of epochs whose metrics or attacks could not be measured.
        fresh_runs: the number of fresh runs of each confirmed model, and in how many of them it meets the criterion.
        unconfirmed: the fresh runs that did not start, and the reason; "" if all ran that were requested.
    """

    out: str
    trials: int
    asked: int
    status: Mapping[str, int]
    hypervolume: float | None
    front: int
    tracking: str
    answer: Mapping[str, Any] | None
    front_trials: int
    reused: int
    ended_because: str | None
    further: str | None
    run_again: int
    unmeasured: int
    fresh_runs: Sequence[Mapping[str, Any]] = ()
    unconfirmed: str = ""

    @property
    def is_incomplete(self) -> bool:
        """Whether an infrastructure failure left trials or measurements without a result."""
        return self.run_again > 0 or (self.unmeasured > 0 and self.ended_because is not None)


def finalize(sweep: OpenSweep) -> Summary:
    """Write the tables and the report, send both to MLflow, and return the summary.

    Must not be called while a worker is running.

    Raises:
        SweepError: some results could not be written, downloaded or uploaded.
        Interrupted: a signal interrupted the sweep, or some trials have not run.
    """
    out, log = sweep.out, sweep.log
    failure = sweep.controller.failure
    end = sweep.controller.end if sweep.remaining_trials > 0 else None
    was_interrupted = is_interrupted() or (sweep.remaining_trials > 0 and end is None)
    missing_files = [] if was_interrupted else sweep.checkpoints.fetch_models()
    pareto: Mapping[str, Any] = {}
    write_error: OSError | None = None
    if log.state.ended or not was_interrupted:
        try:
            pareto = _write_results(sweep, with_verdict=not was_interrupted)
        except OSError as error:
            write_error = error
    log.record(SweepEnded("interrupted" if was_interrupted else "finished"))
    tracking_error = _close_tracker(sweep, pareto, status="interrupted" if was_interrupted or failure else "finished")
    upload_error = sweep.syncer.close() if sweep.syncer is not None else None
    if write_error is not None or log.unwritten_trials:
        raise SweepError(_disk_error(out, write_error, log.unwritten_trials))
    if was_interrupted:
        raise Interrupted
    if missing_files or upload_error:
        raise SweepError(_storage_error(out, sweep.settings, missing_files, upload_error))
    return _summary(sweep, pareto, end, tracking=tracking_error or redact_uri(sweep.settings.tracking_uri))


def _write_results(sweep: OpenSweep, *, with_verdict: bool) -> dict[str, Any]:
    """Write the tables and the report. Return the content of pareto.json. Raises OSError.

    With ``with_verdict``, the verdict of a learning-rate study is written, too.
    """
    from analysis.report.audit import write_audit
    from analysis.report.report import write_report
    from analysis.report.study_text import write_study
    from analysis.study.lr_study import read_study

    sweep.log.flush()
    sweep.checkpoints.reconcile()
    sweep.tables.rewrite(sweep.log.state)
    if with_verdict and sweep.settings.kind == STUDY:
        with contextlib.suppress(AnalysisError):  # the command evaluates the study again, and reports the error
            write_study(sweep.out / _VERDICT, read_study([sweep.out], ()))
    if sweep.log.state.trials_of(Phase.AUDIT):
        write_audit(sweep.out)
    return write_report(sweep.out)


def _close_tracker(sweep: OpenSweep, pareto: Mapping[str, Any], *, status: str) -> str:
    """Send the final results to MLflow. Return a message if some results could not be sent, otherwise ""."""
    from analysis.report.answers_table import answers_tables

    artifacts = [sweep.out / name for name in _ARTIFACTS if (sweep.out / name).exists()]
    answers = answers_tables(sweep.out, pareto.get("answer")) if pareto else None
    tables = {} if answers is None else {SWEEP: answers.all, **answers.by_trial}
    sweep.tracker.sweep_ended(end_of_sweep(status, pareto, artifacts, tables))
    with sweep.console.status("sending the remaining records to MLflow"):
        return sweep.tracker.close(timeout=60.0)


def _summary(sweep: OpenSweep, pareto: Mapping[str, Any], end: End | None, *, tracking: str) -> Summary:
    trials, outcomes = sweep.log.state.ended_of(Phase.SEARCH), sweep.log.state.outcomes
    failure = sweep.controller.failure
    frontier = pareto.get("front", ())
    unmeasured = len({item.checkpoint for item in unmeasured_models(sweep.out, sweep.settings, sweep.log.state)})
    if end is None and unmeasured:
        end = failure
    state = sweep.log.state
    run_again = sum(not trial.has_result for trial in state.ended_trials)
    run_again += sum(trial.outcome is None for trial in state.trials_of(Phase.MERGE))
    audit_models = {model.trial_id for model in pool_models(sweep.settings)}  # an interrupted audit may have had more
    run_again += sum(trial.outcome is None and trial.id in audit_models for trial in state.trials_of(Phase.AUDIT))
    if failure is not None:
        run_again += max(0, sweep.remaining_trials)
    return Summary(
        out=str(sweep.out),
        trials=len(trials),
        asked=sweep.settings.trials,
        status={str(status): sum(outcome.status is status for outcome in outcomes) for status in Status},
        hypervolume=pareto.get("hypervolume"),
        front=len(frontier),
        tracking=tracking,
        answer=pareto.get("answer"),
        front_trials=len({member["trial_id"] for member in frontier}),
        reused=sum(bool(trial.reused_from) for trial in trials),
        ended_because=end.because if end else None,
        further=end.further if end else "",
        run_again=run_again,
        unmeasured=unmeasured,
        fresh_runs=pareto.get("fresh_runs", ()),
        unconfirmed=left_out(sweep),
    )


def _disk_error(out: Path, error: OSError | None, unwritten: int) -> str:
    why = (error.strerror or str(error)) if error else "writing to the disk fails"
    lost = f" {counted(unwritten, 'ended trial')} could not be recorded and will run again." if unwritten else ""
    return (
        f"cannot write to {out} ({why}), so the sweep stopped without a report.{lost} All results in its event log are "
        f"kept. Free some disk space, then continue with:\n  {resume_command(out)}"
    )


def _storage_error(out: Path, settings: SweepSettings, missing_files: Sequence[str], error: str | None) -> str:
    if missing_files:
        text = f"{some_of(missing_files)} could not be downloaded from"
    else:
        text = "the last files could not be uploaded to"
    uri = None if settings.bucket is None else settings.bucket.uri
    return (
        f"{text} the sweep's object storage ({error or uri}). No finished trial is lost. When the storage can be "
        f"reached, continue with:\n  {resume_command(out)}"
    )
