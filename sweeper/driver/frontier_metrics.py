"""Measure stored models after all trials have ended: metrics of epochs on the frontier (Pareto front), and attacks.

By default, a trial measures metrics other than losses only after its last epoch. For other epochs on the frontier, a
worker loads the checkpoint and measures the metrics. Then the attacks of the sweep are measured in the same way, on the
recommended model and on models on or near the frontier. Each result is recorded at once, so a resumed sweep measures
nothing twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sweeper.driver.open_sweep import OpenSweep
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.store.events import MetricsMeasured

if TYPE_CHECKING:
    import pandas as pd

    from trainables.scoring.base import Measurement

_POLL_SECONDS = 0.5  # seconds between two checks for signals and results

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UnmeasuredEpoch:
    """A stored model and metrics that are not measured on it. ``checkpoint`` is relative to the sweep's folder.

    ``attack`` is the attack that measures the metrics; "" for the metrics of the sweep's trials.
    """

    trial_id: str
    step: int
    checkpoint: str
    attack: str = ""

    @classmethod
    def of(cls, row: pd.Series, attack: str = "") -> UnmeasuredEpoch:
        return cls(str(row["trial_id"]), int(row["step"]), str(row["checkpoint"]), attack)


def unmeasured_epochs(out: Path, settings: SweepSettings) -> list[UnmeasuredEpoch]:
    """Return the epochs on the frontier whose metrics are not measured, nearest to the ideal corner first.

    At the ideal corner, all objectives have their best possible values. Only the epochs nearest to the ideal corner are
    considered, at most ``settings.max_measured_epochs``. Epochs without a checkpoint are left out. If only losses are
    requested, the result is empty.
    """
    max_epochs = settings.max_measured_epochs
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
        UnmeasuredEpoch.of(row)
        for (_, row), is_measured in zip(nearest.iterrows(), measured_flags, strict=True)
        if row["checkpoint"] and not is_measured
    ]


def unattacked_epochs(out: Path, settings: SweepSettings) -> list[UnmeasuredEpoch]:
    """Return the stored models on which an attack is not measured, once for each such attack.

    :func:`~analysis.frontier.attack_plan.models_to_attack` chooses at most ``settings.max_attacked_models`` models.
    """
    if not (settings.attack_names and settings.max_attacked_models and (out / "candidates.csv").is_file()):
        return []
    import numpy as np

    from analysis.frontier.attack_plan import models_to_attack
    from analysis.tables.sweep_file import SweepFile
    from analysis.tables.trial_table import TrialTable, numbers
    from trainables.metrics.registry import SETS

    sweep = SweepFile.read(out)
    limit, epsilon = settings.max_attacked_models, settings.attack_epsilon
    rows = models_to_attack(TrialTable.read(out), sweep, limit=limit, epsilon=epsilon)
    unattacked = []
    for attack in settings.attack_names:
        values = [numbers(rows, name).notna() for name in SETS[attack] if name in sweep.baseline]
        is_attacked = np.any(values, axis=0) if values else np.ones(len(rows), dtype=bool)
        missing = rows[~is_attacked]
        unattacked += [UnmeasuredEpoch.of(row, attack) for _, row in missing.iterrows()]
    return unattacked


def unmeasured_models(out: Path, settings: SweepSettings) -> list[UnmeasuredEpoch]:
    """Return all measurements of stored models that are missing."""
    return [*unmeasured_epochs(out, settings), *unattacked_epochs(out, settings)]


def measure_frontier(sweep: OpenSweep, wait_for_head: Callable[[], None]) -> None:
    """Measure the metrics from :func:`unmeasured_epochs` and then :func:`unattacked_epochs` in Ray tasks.

    If a model cannot be measured, the next ``resume`` tries again. The function ``wait_for_head`` waits until Ray's
    head responds, because submitting a Ray task without a head would hang or end this process.
    """
    sweep.checkpoints.fetch_models()
    if epochs := unmeasured_epochs(sweep.out, sweep.settings):
        _measure(sweep, epochs, "measuring the metrics of frontier epochs", wait_for_head)
    sweep.log.flush()  # the recommended model follows from the tables
    if epochs := unattacked_epochs(sweep.out, sweep.settings):
        _measure(sweep, epochs, "attacking stored models", wait_for_head)


def _measure(
    sweep: OpenSweep, epochs: Sequence[UnmeasuredEpoch], activity: str, wait_for_head: Callable[[], None]
) -> None:
    import ray
    from ray.exceptions import RayError

    from sweeper.execution.ray_payload import task_with
    from trainables.scoring.item_log import write_item_log
    from trainables.worker.failures import one_line
    from trainables.worker.process import measure_checkpoint

    settings, display = sweep.settings, sweep.display
    cpus, gpus = settings.cpus_per_trial, sweep.gpus_per_trial
    inputs = {"cpus": cpus, "gpus": gpus, "storage": settings.bucket}
    trials = sweep.log.state.trials
    key_by_trial = {epoch.trial_id: trials[epoch.trial_id].settings["target_key"] for epoch in epochs}
    target_by_key = {target.key: target for target in sweep.targets.values()}
    wait_for_head()
    score_by_key = {
        key: task_with(
            measure_checkpoint, {"target": target_by_key[key], **inputs}, max_retries=1, num_cpus=cpus, num_gpus=gpus
        )
        for key in set(key_by_trial.values())
    }

    def submit(epoch: UnmeasuredEpoch) -> ray.ObjectRef[Measurement]:
        checkpoint = epoch.checkpoint
        folder = Path(checkpoint) if settings.bucket else (sweep.out / checkpoint).resolve()
        spec = replace(settings.base, metrics=(epoch.attack,)) if epoch.attack else settings.base
        return score_by_key[key_by_trial[epoch.trial_id]](folder=folder, spec=spec)

    epoch_by_task = {submit(epoch): epoch for epoch in epochs}
    while epoch_by_task:
        display.activity = f"{activity}: {len(epoch_by_task)} of {len(epochs)} remain"
        sweep.log.flush()
        done_tasks, _ = ray.wait(list(epoch_by_task), timeout=_POLL_SECONDS)
        for task in done_tasks:
            epoch = epoch_by_task.pop(task)
            try:
                scores = ray.get(task)
                if scores.items and not epoch.attack:
                    write_item_log(sweep.out / "items" / f"{Path(epoch.checkpoint).name}.json", scores.items)
            except (RayError, OSError) as error:
                reason = one_line(str(error)) or type(error).__name__
                subject = f"attack {epoch.attack} on" if epoch.attack else "metrics of"
                logger.warning("cannot measure the %s %s: %s", subject, epoch.checkpoint, reason)
            else:
                sweep.log.record(MetricsMeasured(epoch.trial_id, epoch.step, scores.metrics))
