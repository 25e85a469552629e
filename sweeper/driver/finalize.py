"""Finalize a sweep: write its tables and report, send its results to MLflow, and summarize it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from search_spaces.messages import resume_command, some_of
from search_spaces.phases import phase
from sweeper.driver.frontier_metrics import unmeasured
from sweeper.driver.open_sweep import OpenSweep
from sweeper.execution.shutdown import Interrupted, is_interrupted
from sweeper.followers.mlflow.runs import end_of_sweep
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.settings.tracking_uri import shown_uri
from sweeper.store.events import Kind
from sweeper.store.folder import SweepError
from sweeper.store.tables import TABLES
from trainables.run.reports import Status

_KEPT = (
    *("sweep.json", *TABLES),
    *("pareto.json", "pareto.png", "pareto.svg", "report.html", "figures"),
)
"""The files and folders in the sweep's folder that are uploaded to MLflow as artifacts of the sweep's run."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The outcome of a sweep. The fields are the keys of ``--json``.

    ``asked`` is the number of requested trials, and ``trials`` the number of ended trials. ``status`` maps each status
    to its number of ended trials. ``run_again`` is the number of trials that ``resume`` runs again because the disk,
    the memory or a node failed. ``reused`` is the number of trials copied from previous sweeps, and ``repeated`` the
    number of trials copied within this sweep, because a previous trial had the same configuration. ``front`` is the
    number of epochs on the frontier, ``front_trials`` the number of trials with such an epoch, and ``unmeasured`` the
    number of epochs whose metrics could not be measured. ``answer`` is the report's answer, or None without a report.
    ``ended_because`` is the reason why the sweep ended early, or None. ``further`` is the option with which ``resume``
    continues such a sweep.
    """

    out: str
    trials: int
    asked: int
    status: Mapping[str, int]
    hypervolume: float | None
    front: int
    tracking: str
    answer: Mapping[str, Any] | None = None
    front_trials: int | None = None
    reused: int = 0
    repeated: int = 0
    ended_because: str | None = None
    further: str = ""
    run_again: int = 0
    unmeasured: int = 0


def finalize(sweep: OpenSweep) -> Summary:
    """Write the tables and the report of a sweep, send both to MLflow, and return the summary of the sweep.

    Must not be called while a worker is running.

    Raises:
        SweepError: some results could not be written, downloaded or uploaded.
        Interrupted: a signal interrupted the sweep, or some trials have not run.
    """
    from analysis.report.report import write_report

    out, settings, log = sweep.out, sweep.settings, sweep.log
    trials = log.state.ended_trials
    failure = sweep.controller.failure
    end = sweep.controller.end if sweep.remaining_trials > 0 else None
    is_complete = sweep.remaining_trials <= 0 or end is not None
    interrupted = is_interrupted() or not is_complete
    missing = [] if interrupted else sweep.checkpoints.fetch_models()
    refused: OSError | None = None
    if trials or not interrupted:
        try:
            with phase("tables, figures and report"):
                log.flush()
                sweep.checkpoints.reconcile()
                sweep.tables.rewrite(log.state)
                write_report(out)
        except OSError as error:
            refused = error
    pareto = out / "pareto.json"
    front: dict[str, Any] = json.loads(pareto.read_text(encoding="utf-8")) if pareto.is_file() else {}
    answer, members = front.get("answer"), front.get("front", ())
    front_trials = {member["trial_id"] for member in members}
    log.record(Kind.SWEEP_ENDED, payload={"status": "interrupted" if interrupted else "finished"})
    status = "interrupted" if interrupted or failure else "finished"
    artifacts = [out / name for name in _KEPT if (out / name).exists()]
    sweep.tracker.sweep_ended(end_of_sweep(status, front, trials, artifacts))
    console = sweep.console
    waiting = console.status("sending the remaining records to MLflow") if console.is_terminal else nullcontext()
    with waiting, phase("sending the remaining records to MLflow"):
        unsent = sweep.tracker.close(timeout=60.0)
    unmirrored = sweep.syncer.close() if sweep.syncer is not None else None
    if refused is not None or log.unwritten:
        raise SweepError(_disk_error(out, refused, log.unwritten))
    if interrupted:
        raise Interrupted
    if missing or unmirrored:
        raise SweepError(_storage_error(out, settings, missing, unmirrored))
    unscored = len(unmeasured(out, settings))
    end = end or (failure if unscored else None)
    without_result = sum(not trial.has_result for trial in trials)
    reused = [trial.reused_from for trial in trials if trial.reused_from]
    repeated = sum(Path(origin).parent == out for origin in reused)
    return Summary(
        out=str(out),
        trials=len(trials),
        asked=settings.trials,
        status={str(status): sum(trial.outcome["status"] == status for trial in trials) for status in Status},
        hypervolume=front.get("hypervolume"),
        front=len(members),
        front_trials=len(front_trials),
        tracking=unsent or shown_uri(settings.tracking_uri),
        answer=answer,
        reused=len(reused) - repeated,
        repeated=repeated,
        ended_because=end.because if end else None,
        further=end.further if end else "",
        run_again=without_result + (max(0, sweep.remaining_trials) if failure else 0),
        unmeasured=unscored,
    )


def _disk_error(out: Path, refused: OSError | None, unwritten: int) -> str:
    why = (refused.strerror or str(refused)) if refused else "the disk cannot be written"
    lost = f" The results of {unwritten} ended trials are not on disk; these trials run again." if unwritten else ""
    return (
        f"cannot write to {out} ({why}), so the sweep stopped without a report.{lost} All results in its event log are "
        f"kept. Free some disk space, then continue with:\n  {resume_command(out)}"
    )


def _storage_error(out: Path, settings: SweepSettings, missing: Sequence[str], refusal: str | None) -> str:
    what = f"{some_of(missing)} could not be downloaded from" if missing else "the last files could not be uploaded to"
    return (
        f"{what} the sweep's object storage ({refusal or (settings.bucket and settings.bucket.uri)}). No finished "
        f"trial is lost. When the storage can be reached, continue with:\n  {resume_command(out)}"
    )
