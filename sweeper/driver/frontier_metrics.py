"""Measure stored models after all trials have ended: metrics of epochs on the frontier (Pareto front), and attacks.

By default, a trial measures metrics other than losses only after its last epoch. For other epochs on the frontier, a
worker loads the checkpoint and measures the metrics. Then the attacks of the sweep and the tasks of lm-eval are
measured in the same way, on the recommended model and on models on or near the frontier. Each result is recorded at
once, so a resumed sweep measures nothing twice.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sweeper.driver.open_sweep import OpenSweep
from sweeper.driver.worker_tasks import ended_tasks, worker_task
from sweeper.search.unmeasured import UnmeasuredEpoch, unattacked_epochs, unmeasured_epochs
from sweeper.store.events import MetricsMeasured
from trainables.worker.failures import one_line

if TYPE_CHECKING:
    from trainables.scoring.base import Measurement

logger = logging.getLogger(__name__)


def measure_frontier(sweep: OpenSweep, wait_for_head: Callable[[], None]) -> None:
    """Measure the metrics from :func:`unmeasured_epochs` and then :func:`unattacked_epochs` in Ray tasks.

    If a model cannot be measured, the next ``resume`` tries again. The function ``wait_for_head`` waits until Ray's
    head responds, because submitting a Ray task without a head would hang or end this process.
    """
    sweep.checkpoints.fetch_models()
    if epochs := unmeasured_epochs(sweep.out, sweep.settings, sweep.log.state):
        _measure(sweep, epochs, "measuring the metrics of frontier epochs", wait_for_head)
    sweep.log.flush()  # the recommended model follows from the tables
    if epochs := unattacked_epochs(sweep.out, sweep.settings, sweep.log.state):
        _measure(sweep, epochs, "attacking stored models", wait_for_head)


def _measure(
    sweep: OpenSweep, epochs: Sequence[UnmeasuredEpoch], activity: str, wait_for_head: Callable[[], None]
) -> None:
    import ray
    from ray.exceptions import RayError

    from trainables.scoring.item_log import write_item_log
    from trainables.worker.process import measure_checkpoint

    settings = sweep.settings
    trials = sweep.log.state.trials
    key_by_trial = {epoch.trial_id: trials[epoch.trial_id].settings["target_key"] for epoch in epochs}
    target_by_key = {target.key: target for target in sweep.targets.values()}
    wait_for_head()
    submit_by_key = {
        key: worker_task(sweep, measure_checkpoint, target_by_key[key]) for key in set(key_by_trial.values())
    }

    def submit(epoch: UnmeasuredEpoch) -> ray.ObjectRef[Measurement]:
        checkpoint = epoch.checkpoint
        folder = Path(checkpoint) if settings.bucket else (sweep.out / checkpoint).resolve()
        spec = replace(settings.base, metrics=(epoch.metric_set,)) if epoch.metric_set else settings.base
        return submit_by_key[key_by_trial[epoch.trial_id]](folder=folder, spec=spec)

    for task, epoch in ended_tasks(sweep, epochs, submit, activity, wait_for_head):
        subject = epoch.metric_set or "the metrics"
        try:
            scores = ray.get(task)
            if scores.items and not epoch.metric_set:
                write_item_log(sweep.out / "items" / f"{Path(epoch.checkpoint).name}.json", scores.items)
        except (RayError, OSError) as error:
            reason = one_line(str(error)) or type(error).__name__
            logger.warning("cannot measure %s on %s: %s", subject, epoch.checkpoint, reason)
        else:
            sweep.log.record(MetricsMeasured(epoch.trial_id, epoch.step, scores.metrics, epoch.metric_set))
            if scores.metrics and all(map(math.isnan, scores.metrics.values())):
                logger.warning("no value of %s on %s, because a loss is not finite", subject, epoch.checkpoint)
