"""A sweep from settings to a finished folder; resuming is the same function on a folder that has begun.

What is done is read from disk (trials.csv, then optuna.log, then the saved states of running trials), and Ray Tune gets
what is left.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from search_spaces.durable import exclusive
from search_spaces.messages import counted, resume_command
from search_spaces.phases import phase
from sweeper.checks.disk import check_disk, disk_of
from sweeper.conclude import Summary, conclude
from sweeper.execution.cluster import Cluster, import_for_report, import_in_parallel, prepare
from sweeper.execution.frontier_metrics import measure_front, unmeasured
from sweeper.execution.gpu_shares import MOST, GpuShares, part
from sweeper.execution.placement import gpus_to_share
from sweeper.execution.ray_health import StarvationCheck, head_watched
from sweeper.execution.shutdown import abort_main_thread, detach_tune, interruptible, is_interrupted
from sweeper.execution.target_task import prepare_for_sweep
from sweeper.followers.control_server import ControlServer, control_server
from sweeper.open_session import open_session
from sweeper.search.schedulers import NONE, compared_columns
from sweeper.search.stopping import End
from sweeper.session import SweepSession
from sweeper.settings.resources import Resources
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.store.folder import SweepError, UsageError, check_tables, describe, read_origin, read_settings
from sweeper.store.lease import hold_lease
from sweeper.store.plugins import set_worker_plugins
from sweeper.store.saved_states import place_of_run_states
from trainables.spec import TrialSpec
from trainables.target.shared import fetch_target, share_target
from trainables.target.target import Target
from trainables.target.target_spec import target_spec_of

WORKER_RESTARTS = 3
_UNHEARD = """error: interrupted, and what went on (Ray, mostly) did not end; everything finished is kept. Go on with:
  {command}
"""
EndProcess = Callable[[Callable[[], Summary]], None]


def run(
    out: Path,
    *,
    console: Console,
    change: Mapping[str, Any] | None = None,
    retry_failed: bool = False,
    end_process: EndProcess = lambda conclusion: None,
) -> Summary:
    """Run the sweep in ``out``, from wherever it stands, to its end and its report.

    ``change`` has settings, by name, that it is to go on with, such as more ``trials``. Trials that the infrastructure
    ended run again, with ``retry_failed`` all that failed. ``end_process`` gets what concludes the sweep where Ray's
    head is gone: in a thread of its own it calls that, says how the sweep ended, and ends the process.

    Raises:
        SweepError, PlacementError, DataError, TargetError, OtherDriver: with a plain sentence.
        Interrupted: stopped by Ctrl-C, SIGTERM or SIGHUP; ``run`` again goes on.
    """
    settings = read_settings(out)
    in_use = UsageError(f"the sweep in {out} is running in another process; wait for it or stop it")
    settings = replace(settings, **(change or {}))
    set_worker_plugins(out)
    # A terminal gets whole words on each line, a log the whole sentence.
    say = partial(console.print, highlight=False, markup=False, soft_wrap=not console.is_terminal)
    # Two drivers would run every trial twice.
    with (
        interruptible(_UNHEARD.format(command=resume_command(out)), say=say),
        exclusive(out, in_use),
        hold_lease(settings.bucket, out, say=partial(console.print, highlight=False, soft_wrap=True)),
        control_server(out) as desk,
        closing(Cluster(settings)) as cluster,
    ):
        check_tables(out)
        origin = read_origin(out)
        if origin.target_path is None:  # it begins, and will need Ray
            prepare(settings.address)
            # What the cluster cannot do is to be said before a target is fine-tuned for hours.
            with import_in_parallel():
                cluster.slots(sharing=settings.shared(out.resolve()))
        changed = UsageError(
            f"the model or the data of the sweep in {out} have changed since it began: new trials could not be "
            "compared with the old ones; begin a new sweep"
        )
        first, *further = settings.target_seeds
        if origin.target_path and _trains_another(settings.base_of(first), Path(origin.target_path)):
            raise changed
        if settings.bucket and origin.target_key and origin.target_path:
            fetch_target(origin.target_key, Path(origin.target_path), settings.bucket)
        made = partial(prepare_for_sweep, settings=settings, cluster=cluster, out=out, console=console)
        target = made(settings.base_of(first))
        if origin.target_key not in (None, target.key):
            raise changed
        targets = {first: target}
        targets |= {seed: made(settings.base_of(seed)) for seed in further}
        if len({item.vocabulary_size for item in targets.values()}) > 1:
            raise SweepError(
                "the targets of the seeds have vocabularies of different sizes: their losses share no bound"
            )
        if settings.bucket:
            for item in targets.values():
                share_target(item, settings.bucket)
        describe(out, settings, origin, target=target, targets=targets)
        session, restore = open_session(
            settings, out, origin.sweep_id, targets, console=console, retry_failed=retry_failed
        )
        desk.follow(session)
        ended = partial(_ended, end_process, desk)
        return _run(settings, out, targets, session, cluster, restore=restore, console=console, end_process=ended)


def _ended(end_process: EndProcess, desk: ControlServer, conclusion: Callable[[], Summary]) -> None:
    """End the process with the conclusion, which the desk tells first: nothing else will."""

    def told() -> Summary:
        try:
            summary = conclusion()
        except BaseException as error:
            desk.close(error)
            raise
        desk.close(None)
        return summary

    end_process(told)


def _trains_another(base: TrialSpec, begun_with: Path) -> bool:
    """Whether another target than that of the sweep's beginning would be fine-tuned, which may take hours, in vain."""
    return base.target_path is None and target_spec_of(base).trained_key != begun_with.name


def _run(
    settings: SweepSettings,
    out: Path,
    targets: Mapping[int, Target],
    session: SweepSession,
    cluster: Cluster,
    *,
    restore: Mapping[str, str],
    console: Console,
    end_process: EndProcess,
) -> Summary:
    target = next(iter(targets.values()))
    try:
        left = settings.trials - len(session.tables.trials.read())
        if left > 0 and session.has_next():
            _tune(
                *(settings, out, targets, session, cluster),
                left=left,
                restore=restore,
                console=console,
                end_process=end_process,
            )
        else:
            session.stop_waiting()
            session.bring_models()
            if settings.goals and unmeasured(out, most=settings.front_metrics):
                cluster.slots(sharing=settings.shared(out.resolve(), Path(target.path)))
                with _head_watched(settings, out, session, console, end_process) as head_answers:
                    measure_front(session, settings, target, head_answers=head_answers)
    except KeyboardInterrupt:
        pass  # what is finished gets its report below, which ends in Interrupted
    except BaseException:
        session.tracker.sweep_ended(status="failed", metrics={})
        session.tracker.close(timeout=10.0)
        if session.syncer is not None:
            session.syncer.close(timeout=10.0)
        raise
    finally:
        session.display.close()
        cluster.leave()
    return conclude(settings, out, session, console)


def _tune(
    settings: SweepSettings,
    out: Path,
    targets: Mapping[int, Target],
    session: SweepSession,
    cluster: Cluster,
    *,
    left: int,
    restore: Mapping[str, str],
    console: Console,
    end_process: EndProcess,
) -> None:
    """Hand the trials that are left to Ray Tune and wait."""
    slots = cluster.slots(sharing=settings.shared(out.resolve(), *(Path(item.path) for item in targets.values())))
    if session.shares is not None:
        slots = _share_gpus(session.shares, settings, console)
    at_once = trials_at_once(settings, slots)
    _say_what_is_left(session, settings, at_once, console)
    waiting = left if settings.scheduler != NONE and settings.stopping == "pause" else 0
    running = max(min(at_once, left), waiting)
    disk = disk_of(settings.base, Path(next(iter(targets.values())).path), models=left, running=running)
    console.print(check_disk(disk, out), highlight=False, markup=False, soft_wrap=True)
    tuner = _tuner(settings, out, targets, session, left=left, at_once=at_once, restore=restore)
    for name in ("ray.tune", "ray.train"):  # of a storage that does not answer the syncer tells, in a line
        logging.getLogger(name).setLevel(logging.CRITICAL)
    import_for_report()

    with _head_watched(settings, out, session, console, end_process) as head_answers:
        try:
            with phase("trials, from the first worker's start to the last trial's end"):
                tuner.fit()
        except Exception:
            if session.broken is None:  # else Tune has stumbled over its own files, which the disk refused
                raise
        finally:
            detach_tune()
        if session.broken:
            return
        if not is_interrupted():
            session.stop_waiting()
        with phase("metrics of the frontier's epochs"):
            measure_front(session, settings, next(iter(targets.values())), head_answers=head_answers)


def _head_watched(
    settings: SweepSettings, out: Path, session: SweepSession, console: Console, end_process: EndProcess
) -> AbstractContextManager[Callable[[], None]]:
    """Where Ray's head goes while the block runs, break the sweep off and conclude it."""

    def lost(address: str) -> None:
        elsewhere = "--address ADDRESS|none" if settings.address else ""
        session.break_off(End(f"the loss of Ray's head at {address}", elsewhere))
        abort_main_thread()

    def shut_down() -> None:
        session.display.close()
        end_process(lambda: conclude(settings, out, session, console))

    return head_watched(lost, end_process=shut_down, is_cluster=settings.address is not None)


def trials_at_once(settings: SweepSettings, slots: int) -> int:
    """How many trials are handed out where ``slots`` fit now: to a cluster, which may grow, as many as were asked for.

    What does not fit waits there, one trial at a time, which is what an autoscaler goes by.
    """
    asked = settings.max_concurrent or slots
    return min(asked, slots) if settings.address is None else asked


def _tuner(
    settings: SweepSettings,
    out: Path,
    targets: Mapping[int, Target],
    session: SweepSession,
    *,
    left: int,
    at_once: int,
    restore: Mapping[str, str],
) -> Any:
    """The ``tune.Tuner``: told what a trial is, which run when, and who hears of them."""
    from ray import tune
    from ray.tune import TuneConfig

    from sweeper.execution.ray_bridge import what_runs_when
    from sweeper.execution.ray_payload import trainable_with

    trainable = trainable_with(
        target=next(iter(targets.values())),
        targets={item.key: item for item in targets.values()},
        out=str(out.resolve()),
        cpus=settings.cpus_per_trial,
        gpus=settings.resources.gpus,
        goals=settings.goals,
        storage=settings.bucket,
    )
    if settings.time_budget_seconds is not None:
        session.deadline = time.monotonic() + settings.time_budget_seconds
    return tune.Tuner(
        tune.with_resources(trainable, _resources(settings)),
        tune_config=TuneConfig(
            **what_runs_when(
                session,
                left=left,
                at_once=at_once,
                columns=compared_columns(settings),
                pausing=settings.scheduler != NONE and settings.stopping == "pause",
                restore_folders=restore,
            ),
            reuse_actors=True,
            trial_name_creator=lambda trial: str(trial.config["trial_id"]),
            trial_dirname_creator=lambda trial: str(trial.config["trial_id"]),
        ),
        run_config=run_config(session, settings, out),
    )


def run_config(session: SweepSession, settings: SweepSettings, out: Path) -> Any:
    """Tune's ``RunConfig``: where it keeps what, and who hears of it."""
    from ray.tune import CheckpointConfig, FailureConfig, RunConfig

    from sweeper.execution.ray_bridge import AskedToEnd, SessionCallback

    where, attempt = place_of_run_states(settings, out)
    return RunConfig(
        name=f"attempt-{attempt}",
        **where,
        callbacks=[
            SessionCallback(session, StarvationCheck(settings.resources, is_cluster=settings.address is not None))
        ],
        stop=AskedToEnd(session),
        failure_config=FailureConfig(max_failures=WORKER_RESTARTS),
        # Left to itself Tune also saves the whole state of every trial that has just ended.
        checkpoint_config=CheckpointConfig(num_to_keep=1, checkpoint_at_end=False),
        verbose=0,
    )


def _resources(settings: SweepSettings) -> Any:
    """What Tune gives a trial: the same to all, or the share of a GPU that its config has."""
    from ray import tune

    cpus, gpus = settings.cpus_per_trial, settings.resources.gpus
    if not settings.shares_gpus:
        return {"cpu": cpus, "gpu": gpus}
    return lambda config: tune.PlacementGroupFactory([{"CPU": cpus, "GPU": config["gpus"]}])


def _share_gpus(shares: GpuShares, settings: SweepSettings, console: Console) -> int:
    """Tell who divides the GPUs what there is to divide; returns how many trials run at once at most."""
    found = gpus_to_share(Resources(cpus=settings.cpus_per_trial, gpus=part(MOST)))
    shares.gpus, shares.gpu_gb, shares.most = (
        found.count,
        found.gb,
        min(settings.max_concurrent or found.slots, found.slots),
    )
    shares.say = lambda line: console.print(line, highlight=False, markup=False, soft_wrap=True)
    shares.begin()
    return found.slots


def _say_what_is_left(session: SweepSession, settings: SweepSettings, at_once: int, console: Console) -> None:
    """Where some trials have ended already."""
    pace = session.pace
    if pace is not None:
        pace.at_once = at_once if session.shares is None else session.shares.at_once
        if pace.done:
            console.print(f"{pace.done} of {counted(settings.trials, 'trial')} done; left: {pace.estimate().words()}")
