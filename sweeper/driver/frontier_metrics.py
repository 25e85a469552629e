"""Measure the metrics of epochs on the frontier (the Pareto front) after all trials have ended.

By default, a trial measures metrics other than losses only after its last epoch. For other epochs on the frontier, a
worker loads the checkpoint and measures the metrics. Each result is recorded at once, so a resumed sweep measures no
epoch twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sweeper.driver.open_sweep import OpenSweep
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.store.events import MetricsMeasured

_POLL_SECONDS = 0.5  # seconds between two checks for signals and results

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UnmeasuredEpoch:
    """An epoch on the frontier whose metrics are not measured. ``checkpoint`` is relative to the sweep's folder."""

    trial_id: str
    step: int
    checkpoint: str


def unmeasured_epochs(out: Path, settings: SweepSettings) -> list[UnmeasuredEpoch]:
    """Return the epochs on the frontier whose metrics are not measured, nearest to the ideal corner first.

    At the ideal corner, all objectives have their best possible values. Only the ``settings.front_metrics`` epochs
    nearest to the ideal corner are considered. Epochs without a checkpoint are left out. If only losses are requested,
    the result is empty.
    """
    max_epochs = settings.front_metrics
    if not (max_epochs and settings.every_epoch and (out / "candidates.csv").is_file()):
        return []
    import numpy as np

    from analysis.frontier.frontier import frontier
    from analysis.tables.sweep_file import SweepFile
    from analysis.tables.trial_table import TrialTable, numbers
    from trainables.metrics.registry import SETS

    sweep = SweepFile.read(out)
    table = TrialTable.read(out)
    requested_names: set[str] = set()
    for entry in settings.base.metrics or ("default",):
        requested_names.update(SETS.get(entry, (entry,)))  # the metrics of a set, or one metric
    names = [
        name
        for name in table.columns.metrics
        if name in sweep.baseline and name in requested_names and not table.columns[name].each_evaluation
    ]
    if not names or table.trials.empty:
        return []
    front = frontier(table.models, sweep.objectives)
    distances = np.linalg.norm(front.costs, axis=1)  # to the ideal corner
    nearest = front.members.iloc[np.argsort(distances, kind="stable")[:max_epochs]]
    measured_flags = np.any([numbers(nearest, name).notna() for name in names], axis=0).tolist()
    return [
        UnmeasuredEpoch(str(row["trial_id"]), int(row["step"]), str(row["checkpoint"]))
        for (_, row), is_measured in zip(nearest.iterrows(), measured_flags, strict=True)
        if row["checkpoint"] and not is_measured
    ]


def measure_frontier(sweep: OpenSweep, wait_for_head: Callable[[], None]) -> None:
    """Measure the metrics of the epochs from :func:`unmeasured_epochs` in Ray tasks.

    If an epoch cannot be measured, the next ``resume`` tries again. The function ``wait_for_head`` waits until Ray's
    head responds, because submitting a Ray task without a head would hang or end this process.
    """
    import ray
    from ray.exceptions import RayError

    from sweeper.execution.ray_payload import task_with
    from trainables.scoring.item_log import write_item_log
    from trainables.worker.process import measure_checkpoint

    settings, display = sweep.settings, sweep.display
    sweep.checkpoints.fetch_models()
    epochs = unmeasured_epochs(sweep.out, settings)
    if not epochs:
        return
    cpus, gpus = settings.cpus_per_trial, sweep.gpus_per_trial
    inputs = {"target": sweep.target, "spec": settings.base, "cpus": cpus, "gpus": gpus, "storage": settings.bucket}
    wait_for_head()
    score = task_with(measure_checkpoint, inputs, max_retries=1, num_cpus=cpus, num_gpus=gpus)

    def checkpoint_folder(checkpoint: str) -> Path:
        return Path(checkpoint) if settings.bucket else (sweep.out / checkpoint).resolve()

    epoch_by_task = {score(folder=checkpoint_folder(epoch.checkpoint)): epoch for epoch in epochs}
    while epoch_by_task:
        display.activity = f"measuring the metrics of frontier epochs: {len(epoch_by_task)} of {len(epochs)} remain"
        sweep.log.flush()
        done_tasks, _ = ray.wait(list(epoch_by_task), timeout=_POLL_SECONDS)
        for task in done_tasks:
            epoch = epoch_by_task.pop(task)
            try:
                scores = ray.get(task)
                if scores.items:
                    write_item_log(sweep.out / "items" / f"{Path(epoch.checkpoint).name}.json", scores.items)
            except (RayError, OSError) as error:
                lines = str(error).strip().splitlines()
                reason = lines[-1] if lines else type(error).__name__
                logger.warning("cannot measure the metrics of %s: %s", epoch.checkpoint, reason)
            else:
                sweep.log.record(MetricsMeasured(epoch.trial_id, epoch.step, scores.metrics))
