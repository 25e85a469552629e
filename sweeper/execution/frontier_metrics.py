"""The costly metrics of the epochs on the front, measured once the trials are over: for those that may be taken first.

A trial's last epoch has them from its own run. Of the others the losses are known, and the checkpoint is kept: it is
loaded by a worker and scored. What was measured is in candidates.csv at once, and is never measured again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sweeper.execution.shutdown import is_interrupted
from sweeper.session import SweepSession
from sweeper.settings.sweep_settings import SweepSettings
from trainables.target.target import Target

_WAIT = 0.5
"""Seconds: so long a signal may go unnoticed."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Unmeasured:
    """An epoch on the front with its checkpoint, relative to the sweep's folder."""

    trial_id: str
    step: int
    checkpoint: str


def unmeasured(out: Path, *, most: int) -> list[Unmeasured]:
    """Of the ``most`` epochs on the front nearest to the ideal corner, those without metrics; the nearest first."""
    if not most or not (out / "candidates.csv").is_file():
        return []
    import numpy as np

    from analysis.frontier.frontier import frontier
    from analysis.tables.sweep_file import SweepFile
    from analysis.tables.trial_table import TrialTable, numbers

    sweep, table = SweepFile.read(out), TrialTable.read(out)
    metrics = [name for name in table.columns.metrics if name in sweep.baseline]
    if not metrics or table.trials.empty:
        return []
    front = frontier(table.models, sweep.objectives)
    nearest = front.members.iloc[np.argsort(np.linalg.norm(front.costs, axis=1), kind="stable")[:most]]
    known_of = np.any([numbers(nearest, name).notna() for name in metrics], axis=0).tolist()
    return [
        Unmeasured(str(row["trial_id"]), int(row["step"]), str(row["checkpoint"]))
        for (_, row), known in zip(nearest.iterrows(), known_of, strict=True)
        if row["checkpoint"] and not known
    ]


def measure_front(
    session: SweepSession, settings: SweepSettings, target: Target, *, head_answers: Callable[[], None]
) -> None:
    """Measure what is :func:`unmeasured`, on the Ray that is up, as many at once as trials would run.

    A checkpoint that cannot be scored is told and left out: the next ``resume`` tries again. ``head_answers`` returns
    while Ray's head is there: a task begun without it hangs, or ends this process.
    """
    import ray
    from ray.exceptions import RayError

    from sweeper.execution.ray_payload import task_with
    from trainables.worker import measure_checkpoint

    out = session.tables.out
    if is_interrupted():
        return
    session.bring_models()
    if not (left := unmeasured(out, most=settings.front_metrics)):
        return
    gpus = settings.resources.gpus if session.shares is None else session.shares.widest
    cpus = settings.cpus_per_trial
    same = {"target": target, "spec": settings.base, "cpus": cpus, "gpus": gpus, "storage": settings.bucket}
    head_answers()
    score = task_with(measure_checkpoint, same, max_retries=1, num_cpus=cpus, num_gpus=gpus)

    def place(checkpoint: str) -> Path:
        return Path(checkpoint) if settings.bucket else (out / checkpoint).resolve()

    waiting = {score(folder=place(item.checkpoint)): item for item in left}
    while waiting:
        session.display.note(f"measuring {len(waiting)} of {len(left)} epochs on the frontier")
        session.display.refresh()
        done, _ = ray.wait(list(waiting), timeout=_WAIT)
        for reference in done:
            item = waiting.pop(reference)
            try:
                session.tables.add_metrics(item.trial_id, item.step, ray.get(reference))
            except (RayError, OSError) as error:
                reason = str(error).strip().splitlines()[-1:]
                session.unscored = True
                logger.warning("the metrics of %s are missing: %s", item.checkpoint, *reason or [type(error).__name__])
