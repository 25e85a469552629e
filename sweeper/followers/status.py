"""How a sweep stands, read from the files in its folder: while it runs, from another process, or afterwards."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from analysis.frontier.frontier import frontier
from analysis.tables.sources import Sources, read_source
from analysis.tables.trial_table import STATUSES, finite_cell, numbers
from analysis.words import duration, number
from search_spaces.durable import is_held
from search_spaces.messages import counted, resume_command
from sweeper.followers.progress import Cost
from sweeper.followers.status_file import FINISHED, INTERRUPTED, RUNNING, Published
from sweeper.settings.resources import AUTO, Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTrial:
    """A trial that has begun and not ended, with its last report: None where there was none."""

    trial_id: str
    settings: str = ""
    epochs: float | None = None
    epoch: float | None = None
    forget_loss: float | None = None
    retain_loss: float | None = None
    waits: bool = False
    to_end: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepStatus:
    """``state`` is running, finished, interrupted or failed; ``trials`` has how many ended in which status.

    ``front`` counts the epochs on the frontier and ``front_trials`` their trials; ``left_...`` is at the pace so
    far, None where it is not known. ``warned_at`` is in seconds since 1970.
    """

    out: str
    state: str
    doing: str
    process: str
    asked: int
    trials: Mapping[str, int]
    running: tuple[RunningTrial, ...]
    front: int
    front_trials: int
    hypervolume: float | None
    spent: Cost
    left_trials: int | None
    left_seconds: float | None
    warning: str
    warned_at: float | None
    ended_because: str

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for ``--json``, with the cost in hours."""
        values = asdict(self)
        del values["spent"]
        hours = {"gpu_hours": self.spent.gpu_hours, "cpu_hours": self.spent.cpu_hours}
        return values | {"cost": {"trial_seconds": self.spent.seconds, **hours}}


def read_status(out: Path) -> SweepStatus:
    """How the sweep in ``out`` stands.

    Raises:
        AnalysisError: there is no sweep, or a table cannot be read.
    """
    held = is_held(out)  # before the tables: a sweep that ends meanwhile is told as running, with all it has
    told = Published.read(out)
    source = read_source(out)
    front = frontier(source.table.models, source.sweep.objectives)
    ended, asked = source.table.trials, source.sweep.planned_trials or 0
    by_status = {name: int((ended["status"] == name).sum()) for name in STATUSES}
    state = _state(held, told, left=asked - len(ended))
    live = told if told is not None and state == RUNNING else None
    return SweepStatus(
        out=str(out),
        state=state,
        doing=live.doing if live else "",
        process=f"process {live.pid} on {live.host}" if live else "",
        asked=asked,
        trials={name: count for name, count in by_status.items() if count},
        running=_under_way(source, live),
        front=len(front.members),
        front_trials=len(set(front.trial_ids)),
        hypervolume=front.hypervolume if source.sweep.objectives and len(ended) else None,
        spent=_spent(source, live),
        left_trials=live.left_trials if live else None,
        left_seconds=live.left_seconds if live else None,
        warning=told.warning if told else "",
        warned_at=told.warned_at if told else None,
        ended_because=told.ended_because if told and state != RUNNING else "",
    )


def _state(held: bool, told: Published | None, *, left: int) -> str:
    if held:
        return RUNNING
    if told is not None:
        return INTERRUPTED if told.state == RUNNING else told.state  # it was killed
    return INTERRUPTED if left > 0 else FINISHED


def _under_way(source: Sources, live: Published | None) -> tuple[RunningTrial, ...]:
    """Where a process is at the sweep its own trials, else those that have reported and have not ended."""
    known = {str(item["trial_id"]): item for item in live.running} if live else {}
    ids = [*known, *live.waiting] if live else source.table.running
    found = []
    for trial_id in ids:
        reports = source.table.history_of(trial_id)
        last = {} if reports.empty else {name: finite_cell(reports.iloc[-1], name) for name in _REPORTED}
        told = known.get(trial_id, {})
        found.append(
            RunningTrial(
                trial_id=trial_id,
                settings=str(told.get("settings", "")),
                epochs=told.get("epochs"),
                waits=live is not None and trial_id in live.waiting,
                to_end=live is not None and trial_id in live.to_end,
                **last,
            )
        )
    return tuple(found)


_REPORTED = ("epoch", "forget_loss", "retain_loss")


def _spent(source: Sources, live: Published | None) -> Cost:
    trials, settings = source.table.trials, source.sweep.settings
    own = trials[trials["reused_from"].map(str).isin(("", "nan"))] if "reused_from" in trials else trials
    now = time.time()
    running = sum(max(0.0, now - float(item["since"])) for item in live.running) if live else 0.0
    cpus, gpus = float(settings.get("cpus_per_trial") or 1), settings.get("gpus_per_trial") or 0
    seconds = numbers(own, "wall_seconds").fillna(0.0)
    if gpus != AUTO:
        held = float(seconds.sum()) + running
        return Cost(held, Resources(cpus=cpus, gpus=float(gpus)), held * float(gpus))
    shares = numbers(own, "gpu_share").fillna(0.0) if "gpu_share" in own else seconds * 0.0
    last = float(shares.iloc[-1]) if len(shares) else 0.0
    return Cost(
        float(seconds.sum()) + running,
        Resources(cpus=cpus, gpus=last),
        float((seconds * shares).sum()) + running * last,
    )


def words(standing: SweepStatus) -> list[str]:
    """For a person, a line each."""
    ended = sum(standing.trials.values())
    split = ", ".join(f"{count} {name}" for name, count in standing.trials.items())
    about = ", ".join(filter(None, (standing.doing and f"at work on: {standing.doing}", standing.process)))
    lines = [f"{standing.state}{about and f' ({about})'}: {standing.out}"]
    lines.append(f"{ended} of {counted(standing.asked, 'trial')} have ended{split and f': {split}'}")
    if standing.ended_because:
        lines.append(f"ended by {standing.ended_because}")
    if standing.running:
        lines.append("running:" if standing.state == RUNNING else "begun, and not ended:")
    lines += [f"  {_trial(item)}" for item in standing.running]
    if standing.hypervolume is not None:
        members = f"{counted(standing.front, 'epoch')} of {counted(standing.front_trials, 'trial')}"
        lines.append(f"frontier: {members}, hypervolume {standing.hypervolume:.4f}")
    lines.append(f"cost so far: {standing.spent}")
    if standing.left_trials is not None:
        took = "" if standing.left_seconds is None else f", {duration(standing.left_seconds)}"
        lines.append(f"left: about {counted(standing.left_trials, 'trial')}{took}")
    if standing.warning:
        at = time.strftime("%H:%M:%S ", time.localtime(standing.warned_at)) if standing.warned_at else ""
        lines.append(f"last warning: {at}{standing.warning}")
    if standing.state in (INTERRUPTED, "failed"):
        lines.append(f"go on with:\n  {resume_command(standing.out)}")
    return lines


def _trial(item: RunningTrial) -> str:
    epoch = "starts" if item.epoch is None else f"epoch {item.epoch:g}"
    of = f" of {item.epochs:g}" if item.epochs and item.epoch is not None else ""
    losses = "" if item.epoch is None else f", forget {number(item.forget_loss)}, retain {number(item.retain_loss)}"
    state = (", waits at a rung" if item.waits else "") + (", ends with this epoch" if item.to_end else "")
    return " ".join(filter(None, (item.trial_id, item.settings, f"{epoch}{of}{losses}{state}")))
