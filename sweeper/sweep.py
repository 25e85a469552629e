"""Run or resume a sweep."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from search_spaces.common.durable import exclusive
from search_spaces.common.messages import resume_command
from sweeper.checks.criterion import criterion_of_target
from sweeper.driver.audit import audit_models, missing_audit_models, record_p_values
from sweeper.driver.confirmation import confirm_answer, has_fresh_runs
from sweeper.driver.control_server import ControlServer
from sweeper.driver.finalize import Summary, finalize
from sweeper.driver.frontier_metrics import measure_frontier
from sweeper.driver.merging import merge_models, missing_merges, propose_merge
from sweeper.driver.open_sweep import OpenSweep, open_sweep
from sweeper.driver.tune_run import run_trials, watch_head
from sweeper.execution.cluster import Cluster
from sweeper.execution.shutdown import interruptible, is_interrupted
from sweeper.execution.target_process import target_process
from sweeper.execution.target_task import is_prepared_remotely, prepare_for_sweep
from sweeper.followers.mlflow.runs import SweepEnd
from sweeper.search.limits import SEARCH_CLOSED
from sweeper.search.unmeasured import unmeasured_models
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.store.event_log import read_state
from sweeper.store.events import Merge
from sweeper.store.folder import Origin, SweepError, UsageError, read_origin, read_settings, write_sweep_json
from sweeper.store.lease import hold_lease
from sweeper.store.plugins import set_worker_plugins
from trainables.target.shared import fetch_target, share_target
from trainables.target.target import Target, target_spec_of

_SHUTDOWN_MESSAGE = """error: interrupted, but Ray did not stop; all finished trials are kept. Continue with:
  {command}
"""


def run(  # noqa: PLR0913 - each command that continues a sweep changes another part
    out: Path,
    *,
    console: Console,
    changes: Mapping[str, Any] | None = None,
    retry_failed: bool = False,
    search: bool = True,
    merge: Merge | None = None,
    cluster: Cluster | None = None,
    end_process: Callable[[Callable[[], Summary]], None] = lambda summary: None,
) -> Summary:
    """Run the sweep in ``out`` to its end, and write its report. Trials with an infrastructure failure run again.

    Args:
        changes: maps names of settings to values that replace the stored values, for example a larger ``trials``.
        retry_failed: run all failed trials again.
        search: whether to run the remaining trials of the search. Otherwise, only the trials of other phases run.
        merge: a model to merge from models of the sweep.
        cluster: a cluster that the sweep shares with others. If None, Ray is started and shut down for this sweep.
        end_process: function that ends the process. If Ray's head node is lost, it is called in another thread. Its
            argument is a function that finalizes the sweep.

    Raises:
        SweepError, PlacementError, DataError, TargetError, OtherDriver: the sweep cannot run; the message names the
            reason.
        Interrupted: the sweep was stopped by Ctrl-C, SIGTERM or SIGHUP; calling ``run`` again continues the sweep.
    """
    settings = replace(read_settings(out), **(changes or {}))
    in_use_error = UsageError(f"the sweep in {out} is running in another process; wait for it or stop it")
    set_worker_plugins(out)
    if settings.problems:
        raise UsageError(f"the sweep in {out} cannot continue: {'; '.join(settings.problems)}. Start a new sweep.")
    say = partial(console.print, soft_wrap=True)
    with (
        interruptible(_SHUTDOWN_MESSAGE.format(command=resume_command(out)), say=say),
        exclusive(out, in_use_error),  # two drivers would run every trial twice
        hold_lease(settings.bucket, out, say=say),
        ControlServer(out) as control,
        closing(Cluster(settings)) if cluster is None else nullcontext(cluster) as cluster,
    ):
        read_state(out)  # a damaged event log ends the sweep before the target is prepared
        origin = read_origin(out)
        targets = _load_targets(settings, origin, cluster, out=out, console=console)
        write_sweep_json(out, settings, origin, targets=targets)
        say(criterion_of_target(out))
        sweep = open_sweep(out, settings, targets, sweep_id=origin.sweep_id, console=console, retry_failed=retry_failed)
        control.follow(sweep)
        if not search:
            sweep.controller.limits.closed = SEARCH_CLOSED
        if merge is not None:
            propose_merge(sweep, merge)

        def on_lost_head() -> None:
            sweep.display.close()
            end_process(partial(control.close_after, partial(finalize, sweep)))

        _run_to_end(sweep, cluster, on_lost_head)
        return finalize(sweep)


def _load_targets(
    settings: SweepSettings, origin: Origin, cluster: Cluster, *, out: Path, console: Console
) -> dict[int, Target]:
    """Return the target of each seed. Missing targets are fine-tuned first."""
    changed_error = UsageError(
        f"The model or data of the sweep in {out} changed after the sweep started, so new trials would not be "
        "comparable with existing ones. Start a new sweep."
    )
    first, *other_seeds = settings.target_seeds
    base = settings.base_spec(first)

    def load(seed: int, while_loading: Callable[[], object] = lambda: None) -> Target:
        spec = settings.measured_spec(seed)
        process = target_process(spec, python=lambda: cluster.python, is_new=origin.target_path is None)
        local_process = nullcontext() if is_prepared_remotely(settings) else process
        with local_process as wait_for_target:
            while_loading()
            return prepare_for_sweep(
                spec, settings=settings, cluster=cluster, out=out, console=console, fill_cache=wait_for_target
            )

    if origin.target_path is None:  # a new sweep, which will need Ray

        def check_size() -> None:  # a cluster that is too small ends the sweep before a target is fine-tuned for hours
            cluster.slots(shared_folders=settings.shared_folders(out.resolve()))

        targets = {first: load(first, while_loading=check_size)}
    else:
        if base.target_path is None and target_spec_of(base).trained_key != Path(origin.target_path).name:
            raise changed_error  # before another target is fine-tuned, which may take hours
        if settings.bucket and origin.target_key:
            fetch_target(origin.target_key, Path(origin.target_path), settings.bucket)
        targets = {first: load(first)}
    # An attack that was added later may need a retain model. The target and its trials are the same without it.
    started_without_retain_model = origin.target_key == targets[first].key_without_retain
    if origin.target_key not in (None, targets[first].key) and not started_without_retain_model:
        raise changed_error
    targets |= {seed: load(seed) for seed in other_seeds}
    if started_without_retain_model:
        targets = {seed: replace(target, key=target.key_without_retain) for seed, target in targets.items()}
    vocabulary_sizes = {target.vocabulary_size for target in targets.values()}
    if len(vocabulary_sizes) > 1:
        raise SweepError(
            "the targets of the seeds have vocabularies of different sizes, so their losses are not comparable; use "
            "--seeds-vary order or target"
        )
    if settings.bucket:
        for target in targets.values():
            share_target(target, settings.bucket)
    return targets


def _run_to_end(sweep: OpenSweep, cluster: Cluster, on_lost_head: Callable[[], None]) -> None:
    """Run the remaining trials, and then the merge trials, the confirm trials and the audit trials.

    After Ctrl-C, return normally, so that the report is written.
    """
    controller = sweep.controller
    try:
        has_trials = sweep.remaining_trials > 0 and controller.queue_next()
        if not has_trials:
            if controller.limits.closed is None:
                controller.end_paused(all_trials=True)
            sweep.checkpoints.fetch_models()
            if controller.failure is not None:
                return
            unmeasured = unmeasured_models(sweep.out, sweep.settings, sweep.log.state)
            is_measured = not missing_merges(sweep) and not unmeasured
            if is_measured and not has_fresh_runs(sweep) and not missing_audit_models(sweep):
                record_p_values(sweep)  # a killed driver may not have recorded them
                return
        folders = [sweep.out.resolve(), *(Path(target.path) for target in sweep.targets.values())]
        capacity = cluster.slots(shared_folders=sweep.settings.shared_folders(*folders))
        with watch_head(sweep, on_lost_head) as wait_for_head:
            if has_trials:
                run_trials(sweep, capacity)
            if controller.failure is None and not is_interrupted():
                controller.end_paused(all_trials=True)
                merge_models(sweep, wait_for_head)
                measure_frontier(sweep, wait_for_head)
                confirm_answer(sweep, capacity)
                if controller.failure is None and not is_interrupted():
                    audit_models(sweep, wait_for_head)
                    record_p_values(sweep)
    except KeyboardInterrupt:
        pass
    except BaseException:
        sweep.tracker.sweep_ended(SweepEnd(status="failed"))
        sweep.tracker.close(timeout=10.0)
        if sweep.syncer is not None:
            sweep.syncer.close(timeout=10.0)
        raise
    finally:
        sweep.display.close()
        cluster.sweep_ended()
