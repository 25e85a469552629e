"""Run Ray tasks with the resources of a trial, outside of Ray Tune: measurements, merges and audit models."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from search_spaces.common.messages import first_line
from sweeper.driver.open_sweep import OpenSweep
from sweeper.execution.shutdown import is_interrupted
from sweeper.store.events import TrialEnded, TrialStarted
from trainables.run.reports import Outcome, Status
from trainables.target.target import Target
from trainables.worker.failures import one_line

if TYPE_CHECKING:
    import ray

_POLL_SECONDS = 0.5  # seconds between two checks for signals and results
T = TypeVar("T")

logger = logging.getLogger(__name__)


def worker_task(sweep: OpenSweep, function: Callable[..., Any], target: Target) -> Callable[..., ray.ObjectRef[Any]]:
    """Return a function that submits a Ray task, which calls ``function(target=..., cpus=..., gpus=..., storage=...)``.

    Ray's head must respond, because submitting a Ray task without a head would hang or end this process.
    """
    from sweeper.execution.ray_payload import task_with

    cpus, gpus = sweep.settings.cpus_per_trial, sweep.gpus_per_trial
    inputs = {"target": target, "cpus": cpus, "gpus": gpus, "storage": sweep.settings.bucket}
    return task_with(function, inputs, max_retries=1, num_cpus=cpus, num_gpus=gpus)


def ended_tasks(
    sweep: OpenSweep,
    items: Sequence[T],
    submit: Callable[[T], ray.ObjectRef[Any]],
    activity: str,
    wait_for_head: Callable[[], None],
) -> Iterator[tuple[ray.ObjectRef[Any], T]]:
    """Submit a task for each item. Yield each task and its item when the task has ended. Ctrl-C ends the iteration.

    At most ``max_concurrent`` tasks run at once, if the sweep has this limit.

    Args:
        activity: what the display shows meanwhile.
        wait_for_head: waits until Ray's head responds. It is called before tasks are submitted.
    """
    import ray

    waiting, running = deque(items), dict[ray.ObjectRef[Any], T]()
    limit = sweep.settings.max_concurrent or len(items)
    while (waiting or running) and not is_interrupted():
        if waiting and len(running) < limit:
            wait_for_head()
        while waiting and len(running) < limit:
            item = waiting.popleft()
            running[submit(item)] = item
        sweep.display.activity = f"{activity}: {len(waiting) + len(running)} of {len(items)} remain"
        sweep.log.flush()
        done_tasks, _ = ray.wait(list(running), timeout=_POLL_SECONDS)
        for task in done_tasks:
            yield task, running.pop(task)


def trial_results(
    sweep: OpenSweep,
    trial_ids: Sequence[str],
    submit: Callable[[str], ray.ObjectRef[Any]],
    activity: str,
    wait_for_head: Callable[[], None],
) -> Iterator[tuple[str, Any]]:
    """Start each trial as a task (:func:`ended_tasks`). When a task has ended, yield its trial and its result.

    If a task raises an error, the trial has failed. If a worker is lost, the trial has no result, and the next
    ``resume`` runs it again.
    """
    import ray
    from ray.exceptions import RayError, RayTaskError

    def start(trial_id: str) -> ray.ObjectRef[Any]:
        sweep.log.record(TrialStarted(trial_id))
        return submit(trial_id)

    for task, trial_id in ended_tasks(sweep, trial_ids, start, activity, wait_for_head):
        try:
            result = ray.get(task)
        except RayTaskError as error:
            reason = one_line(str(error)) or type(error).__name__
            sweep.log.record(TrialEnded(trial_id, Outcome(status=Status.FAILED, error=reason)))
        except RayError as error:
            logger.warning("%s has no result, because its worker was lost: %s", trial_id, first_line(error))
        else:
            yield trial_id, result
