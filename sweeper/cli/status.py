"""Read the status of a sweep from its folder. The sweep may be running in another process."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from analysis.errors import AnalysisError
from analysis.frontier.frontier import frontier
from analysis.tables.sources import read_source
from analysis.words import number
from search_spaces.common.durable import is_locked
from search_spaces.common.messages import counted, no_sweep, resume_command
from sweeper.driver.status_file import FINISHED, INTERRUPTED, RUNNING, StatusFile
from sweeper.settings.resources import AUTO, Resources
from sweeper.store.event_log import read_state
from sweeper.store.events import Phase
from sweeper.store.progress import Cost, Remaining, cost_of, settings_text
from sweeper.store.state import Stage, SweepState, Trial
from trainables.run.reports import Outcome, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepStatus:
    """The status of a sweep. Except for ``spent`` and ``left``, the fields are the keys of ``status --json``.

    Attributes:
        state: running, finished, interrupted or failed.
        doing: what the running driver does now, such as ``trials``; "" if no driver runs.
        process: a text with the running driver's process id and host, or "".
        asked: the number of requested trials.
        trials: maps each status to the number of ended trials with this status.
        running: the running and paused trials. If no driver runs, the trials that have started but not ended.
        front: the number of epochs on the frontier.
        front_trials: the number of trials with an epoch on the frontier.
        left: the estimate of the remaining trials; None if no driver runs.
        warned_at: the time of the last warning in seconds since 1970.
    """

    out: str
    state: str
    doing: str
    process: str
    asked: int
    trials: Mapping[str, int]
    running: tuple[Trial, ...]
    front: int
    front_trials: int
    hypervolume: float | None
    spent: Cost
    left: Remaining | None
    warning: str
    warned_at: float | None
    ended_because: str

    def to_dict(self) -> dict[str, Any]:
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        spent, left = values.pop("spent"), values.pop("left")
        return values | {
            "running": [_trial_values(trial, is_live=self.state == RUNNING) for trial in self.running],
            "left_trials": left.trials if left is not None else None,
            "left_seconds": left.seconds if left is not None else None,
            "cost": {"trial_seconds": spent.seconds, "gpu_hours": spent.gpu_hours, "cpu_hours": spent.cpu_hours},
        }


def read_status(out: Path) -> SweepStatus:
    """Return the status of the sweep in ``out``.

    Raises:
        AnalysisError: the folder has no sweep, or a table cannot be read.
        EventLogError: the event log is damaged.
    """
    if not (out / "sweep.json").is_file():
        raise AnalysisError(no_sweep(out))
    has_driver = is_locked(out)  # before the log is read, so that a sweep that ends meanwhile counts as running
    status_file = StatusFile.read(out)
    source = read_source(out)
    sweep = read_state(out)
    front = frontier(source.table.models, source.sweep.objectives)
    ended = sweep.ended_of(Phase.SEARCH)
    asked = source.sweep.planned_trials or 0
    counts = {str(status): sum(outcome.status is status for outcome in sweep.outcomes) for status in Status}
    state = _state(status_file, has_driver=has_driver, remaining=asked - len(ended))
    driver = status_file if status_file is not None and state == RUNNING else None
    return SweepStatus(
        out=str(out),
        state=state,
        doing=driver.doing if driver else "",
        process=f"process {driver.pid} on {driver.host}" if driver else "",
        asked=asked,
        trials={name: count for name, count in counts.items() if count},
        running=tuple(_unfinished(sweep, is_live=driver is not None)),
        front=len(front.members),
        front_trials=len(set(front.trial_ids)),
        hypervolume=front.hypervolume if source.sweep.objectives and ended else None,
        spent=cost_of(sweep, _resources(source.sweep.settings, sweep.outcomes), is_running=driver is not None),
        left=driver.left if driver else None,
        warning=status_file.warning if status_file else "",
        warned_at=status_file.warned_at if status_file else None,
        ended_because=status_file.ended_because if status_file and state != RUNNING else "",
    )


def _state(status_file: StatusFile | None, *, has_driver: bool, remaining: int) -> str:
    if has_driver:
        return RUNNING
    if status_file is not None:
        return INTERRUPTED if status_file.state == RUNNING else status_file.state  # a killed process leaves RUNNING
    return INTERRUPTED if remaining > 0 else FINISHED


def _unfinished(sweep: SweepState, *, is_live: bool) -> list[Trial]:
    if is_live:
        return sweep.at_stage(Stage.RUNNING) + sweep.at_stage(Stage.PAUSED)
    return [trial for trial in sweep.trials.values() if trial.reports and trial.outcome is None]


def _trial_values(trial: Trial, *, is_live: bool) -> dict[str, Any]:
    """Return the entry of an unfinished trial in ``status --json``."""
    last_report = trial.reports[-1] if trial.reports else None
    losses = {} if last_report is None else last_report.losses
    return {
        "trial_id": trial.id,
        "settings": settings_text(trial.settings),
        "epochs": trial.settings.get("epochs"),
        "epoch": None if last_report is None else last_report.epoch,
        **{name: losses.get(name) for name in ("forget_loss", "forget_loss_capped", "retain_loss")},
        "waits": trial.stage is Stage.PAUSED,
        "to_end": is_live and trial.stop_requested,  # resume discards the stop requests to a killed driver
    }


def _resources(settings: Mapping[str, Any], ended: list[Outcome]) -> Resources:
    """Return the resources of one trial. If trials share GPUs, the GPU share is that of the trial that ended last."""
    cpus = float(settings.get("cpus_per_trial") or 1)
    gpus = settings.get("gpus_per_trial") or 0
    if gpus == AUTO:
        shares = [outcome.execution.gpu_share for outcome in reversed(ended)]
        gpus = next((share for share in shares if share), 0.0)
    return Resources(cpus=cpus, gpus=float(gpus))


def format_status(status: SweepStatus) -> list[str]:
    """Return the status as lines of text for a user."""
    ended = sum(status.trials.values())
    current_step = f"current step: {status.doing}" if status.doing else ""
    details = ", ".join(filter(None, (current_step, status.process)))
    lines = [f"{status.state} ({details}): {status.out}" if details else f"{status.state}: {status.out}"]
    status_counts = ", ".join(f"{count} {name}" for name, count in status.trials.items())
    ended_line = f"{ended} of {counted(status.asked, 'trial')} have ended"
    lines.append(f"{ended_line}: {status_counts}" if status_counts else ended_line)
    if status.ended_because:
        lines.append(f"ended by {status.ended_because}")
    if status.running:
        lines.append("running:" if status.state == RUNNING else "trials that have not ended:")
    lines += [f"  {_format_trial(trial, is_live=status.state == RUNNING)}" for trial in status.running]
    if status.hypervolume is not None:
        members = f"{counted(status.front, 'epoch')} of {counted(status.front_trials, 'trial')}"
        lines.append(f"frontier: {members}, hypervolume {status.hypervolume:.4f}")
    lines.append(f"cost so far: {status.spent}")
    if status.left is not None:
        lines.append(f"remaining: {status.left}")
    if status.warning:
        warning_time = time.strftime("%H:%M:%S ", time.localtime(status.warned_at)) if status.warned_at else ""
        lines.append(f"last warning: {warning_time}{status.warning}")
    if status.state == INTERRUPTED and 0 < status.asked <= ended:
        lines.append("all trials have ended, but the measurements after them and the report may be incomplete")
    if status.state in (INTERRUPTED, "failed"):
        lines.append(f"continue with:\n  {resume_command(status.out)}")
    return lines


def _format_trial(trial: Trial, *, is_live: bool) -> str:
    values = _trial_values(trial, is_live=is_live)
    progress = "starts"
    if values["epoch"] is not None:
        total = f" of {values['epochs']:g}" if values["epochs"] else ""
        losses = (
            f"forget loss capped {number(values['forget_loss_capped'])}, retain loss {number(values['retain_loss'])}"
        )
        progress = f"epoch {values['epoch']:g}{total}, {losses}"
    if values["waits"]:
        progress += ", paused by the scheduler"
    if values["to_end"]:
        progress += ", stops after this epoch"
    return " ".join(filter(None, (trial.id, values["settings"], progress)))
