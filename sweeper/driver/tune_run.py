"""Run the remaining trials of a sweep on Ray Tune."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from search_spaces.common.messages import counted
from sweeper.checks.disk import check_disk, estimate_sweep_disk
from sweeper.driver.open_sweep import OpenSweep
from sweeper.execution.cluster import import_for_report
from sweeper.execution.gpu_shares import MAX_PER_GPU, GpuShares, equal_share
from sweeper.execution.nodes import ask_nodes, gpu_memory
from sweeper.execution.placement import slots
from sweeper.execution.ray_health import head_watched
from sweeper.execution.shutdown import abort_main_thread, detach_tune
from sweeper.search.limits import End
from sweeper.settings.resources import Resources
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.store.events import Phase
from sweeper.store.saved_states import tune_storage

WORKER_RESTARTS = 3


def run_trials(sweep: OpenSweep, capacity: int) -> None:
    """Run the remaining trials.

    ``capacity`` is the number of trials that the present nodes can run at once. It is not used if trials share GPUs.
    """
    settings = sweep.settings
    if sweep.shares is not None:
        capacity = _share_gpus(sweep.shares, sweep)
    max_concurrent = sweep.max_concurrent(capacity)
    sweep.display.remaining = lambda: sweep.estimate(max_concurrent)
    ended_count = len(sweep.log.state.outcomes)
    if ended_count and sweep.controller.phase is Phase.SEARCH:
        time_left = sweep.estimate(max_concurrent)
        sweep.console.print(f"{ended_count} of {counted(settings.trials, 'trial')} done; remaining: {time_left}")
    trials_left = sweep.controller.queued_confirmations or sweep.remaining_trials
    # A paused trial keeps its state on the disk, so any number of trials may need space at once.
    max_states = trials_left if settings.pauses_trials else min(max_concurrent, trials_left)
    disk = estimate_sweep_disk(settings, Path(sweep.target.path), trials=trials_left, running=max_states)
    sweep.console.print(check_disk(disk, sweep.out), soft_wrap=True)
    tuner = _tuner(sweep, max_concurrent=max_concurrent)
    for name in ("ray.tune", "ray.train"):  # only the syncer reports a storage that does not respond
        logging.getLogger(name).setLevel(logging.CRITICAL)
    import_for_report()
    try:
        tuner.fit()
    except Exception:
        if sweep.controller.failure is None:  # otherwise Tune failed because it could not write its own files
            raise
    finally:
        detach_tune()


def watch_head(sweep: OpenSweep, on_lost_head: Callable[[], None]) -> AbstractContextManager[Callable[[], None]]:
    """Return a context manager that stops the sweep and calls ``on_lost_head`` if Ray's head is lost.

    The function ``on_lost_head`` is called in another thread. It must finalize the sweep and end the process.
    """
    settings = sweep.settings

    def on_loss(address: str) -> None:
        resume_option = "--address ADDRESS|none" if settings.address else ""
        sweep.controller.failure = End(f"the loss of Ray's head at {address}", resume_option)
        abort_main_thread()

    return head_watched(on_loss, end_process=on_lost_head, is_cluster=settings.address is not None)


def _tuner(sweep: OpenSweep, *, max_concurrent: int) -> Any:
    from ray import tune
    from ray.tune import TuneConfig

    from sweeper.driver.ray_bridge import TrialSearcher
    from sweeper.driver.tune_scheduler import TuneScheduler
    from sweeper.execution.ray_payload import trainable_with

    settings = sweep.settings
    if settings.time_budget_seconds is not None and sweep.controller.limits.deadline is None:
        sweep.controller.limits.deadline = time.monotonic() + settings.time_budget_seconds
    scheduler = TuneScheduler(sweep, max_concurrent=max_concurrent)
    os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(max_concurrent)  # otherwise Tune starts workers one at a time
    trainable = trainable_with(
        targets={target.key: target for target in sweep.targets.values()},
        out=str(sweep.out.resolve()),
        cpus=settings.cpus_per_trial,
        gpus=settings.resources.gpus,
        criteria=sweep.criteria,
        storage=settings.bucket,
    )
    return tune.Tuner(
        tune.with_resources(trainable, _resources(settings)),
        tune_config=TuneConfig(
            search_alg=TrialSearcher(sweep, scheduler),
            scheduler=scheduler,
            num_samples=-1,  # the searcher ends the run
            reuse_actors=True,
            trial_name_creator=lambda trial: str(trial.config["trial_id"]),
            trial_dirname_creator=lambda trial: str(trial.config["trial_id"]),
        ),
        run_config=run_config(sweep),
    )


def run_config(sweep: OpenSweep) -> Any:
    """Return Tune's ``RunConfig`` with the storage, the callbacks and the stopper."""
    from ray.tune import CheckpointConfig, FailureConfig, RunConfig

    from sweeper.driver.ray_bridge import ReportRecorder, TrialRecorder

    storage_options, attempt = tune_storage(sweep.settings, sweep.out)
    return RunConfig(
        name=f"attempt-{attempt}",
        **storage_options,
        callbacks=[TrialRecorder(sweep)],
        stop=ReportRecorder(sweep),
        failure_config=FailureConfig(max_failures=WORKER_RESTARTS),
        # By default Tune also saves the whole state of every trial when it ends.
        checkpoint_config=CheckpointConfig(num_to_keep=1, checkpoint_at_end=False),
        verbose=0,
    )


def _resources(settings: SweepSettings) -> Any:
    from ray import tune

    cpus = settings.cpus_per_trial
    if settings.shares_gpus:
        return lambda config: tune.PlacementGroupFactory([{"CPU": cpus, "GPU": config["gpus"]}])
    return {"cpu": cpus, "gpu": settings.resources.gpus}


def _share_gpus(shares: GpuShares, sweep: OpenSweep) -> int:
    """Configure GPU sharing. Return how many trials can run at the same time if all have the smallest GPU share."""
    import ray

    settings = sweep.settings
    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("GPU", 0)]
    gpu_sizes: list[float] = []  # in GB
    for node_sizes in ask_nodes(gpu_memory, nodes=nodes).values():
        if node_sizes is not None:
            gpu_sizes += node_sizes
    capacity = slots(nodes, Resources(cpus=settings.cpus_per_trial, gpus=equal_share(MAX_PER_GPU)))
    shares.gpus = sum(node["Resources"]["GPU"] for node in nodes)
    shares.gpu_gb = min(gpu_sizes, default=None)
    shares.max_concurrent = min(settings.max_concurrent or capacity, capacity)
    shares.say = partial(sweep.console.print, soft_wrap=True)
    shares.print_new()
    return capacity
