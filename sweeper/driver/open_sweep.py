"""Open a sweep: create or restore its event log, study and followers."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from search_spaces.common.front import Criteria
from sweeper.checks.disk import estimate_disk
from sweeper.controller import Controller
from sweeper.execution.gpu_shares import GpuShares
from sweeper.followers.checkpoint_limit import CheckpointLimit
from sweeper.followers.checkpoints import CheckpointManager
from sweeper.followers.display import Display
from sweeper.followers.mlflow.runs import TrackedSweep
from sweeper.followers.mlflow.store import ExperimentStore
from sweeper.followers.mlflow.tracker import Tracker
from sweeper.followers.syncer import Syncer
from sweeper.followers.tables import TableWriter
from sweeper.search.limits import Limits
from sweeper.search.reuse import ReusableTrials
from sweeper.search.schedulers import open_scheduler
from sweeper.search.study import open_study
from sweeper.settings.keep import parse_keep
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.settings.until import parse_until
from sweeper.store.columns import unused_columns
from sweeper.store.event_log import FILE, EventLog, Follower
from sweeper.store.events import Phase, SweepStarted, TrialRequeued
from sweeper.store.progress import Remaining, remaining
from sweeper.store.saved_states import SavedState, find_states, state_storage
from sweeper.store.tables import ResultTables
from trainables.metrics.registry import primary_metrics
from trainables.run.reports import Status
from trainables.spec import TrialSpec
from trainables.target.target import Target

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSweep:
    """A sweep that this driver runs. The fields after ``console`` are followers of the event log.

    ``targets`` maps each seed to its target, the model before unlearning. ``states`` maps the ids of unfinished trials
    to the saved states from which the trials continue.
    """

    out: Path
    settings: SweepSettings
    targets: Mapping[int, Target]
    log: EventLog
    controller: Controller
    states: Mapping[str, SavedState]
    console: Console
    tables: TableWriter
    checkpoints: CheckpointManager
    tracker: Tracker
    display: Display
    syncer: Syncer | None
    shares: GpuShares | None

    def __reduce__(self) -> tuple[type, tuple[()]]:
        # Ray pickles this object with its callbacks, but only the driver uses it.
        return object, ()

    @property
    def target(self) -> Target:
        """The target of the first seed."""
        return next(iter(self.targets.values()))

    @property
    def criteria(self) -> Criteria | None:
        """The criteria by which models of epochs are kept; None if only last epochs of trials are candidates."""
        return self.controller.study.archive.criteria if self.settings.every_epoch else None

    @property
    def remaining_trials(self) -> int:
        """The number of requested trials of the search that have not ended."""
        return self.settings.trials - len(self.log.state.ended_of(Phase.SEARCH))

    @property
    def gpus_per_trial(self) -> float:
        """The number of GPUs for one trial. If trials share GPUs, this is the largest share."""
        return self.settings.resources.gpus if self.shares is None else self.shares.largest

    def max_concurrent(self, slots: int) -> int:
        """Return the maximum number of concurrent trials if the present nodes can run ``slots`` trials at once.

        On a cluster, the result may exceed ``slots``, because Ray's autoscaler adds nodes for trials that do not fit.
        """
        requested_count = self.settings.max_concurrent or slots
        return min(requested_count, slots) if self.settings.address is None else requested_count

    def estimate(self, max_concurrent: int = 1) -> Remaining:
        settings, size = self.settings, self.controller.study.tried.size
        possible_trials = math.inf if size is None else (size + len(settings.extension)) * settings.seeds
        return remaining(
            self.log.state,
            trials=int(min(settings.trials, possible_trials)),
            epochs_left=self.controller.limits.epochs_left(self.log.state.trained_epochs),
            max_concurrent=max_concurrent if self.shares is None else self.shares.concurrent,
        )


def open_sweep(
    out: Path,
    settings: SweepSettings,
    targets: Mapping[int, Target],
    *,
    sweep_id: str,
    console: Console,
    retry_failed: bool = False,
) -> OpenSweep:
    """Open the sweep in ``out``. Requeue trials without a result and, if ``retry_failed`` is true, failed trials."""
    target = next(iter(targets.values()))
    log = EventLog(out / FILE)
    syncer = None if settings.bucket is None else Syncer(out, settings.bucket)
    metrics = settings.measured_spec(settings.seed).metrics
    modality, audit = target.data.modality, settings.audit > 0
    unused = unused_columns(settings.methods, metrics, modality=modality, audit=audit)
    tables = ResultTables(out, without=unused)
    states = _requeue(log, settings, out, retry_failed=retry_failed, console=console)

    def make_spec(config: Mapping[str, Any]) -> TrialSpec:
        target_of_seed = targets.get(config["seed"], target)
        return settings.make_spec(config, target_key=target_of_seed.key)

    study = open_study(log, settings, target, identify=lambda config: make_spec(config).spec_hash, console=console)
    controller = Controller(
        log=log,
        study=study,
        make_spec=make_spec,
        reusable=ReusableTrials([Path(folder) for folder in settings.reuse]),
        limits=Limits(plateau=parse_until(settings.until), epoch_budget=settings.epoch_budget),
        scheduler=open_scheduler(settings, target),
    )
    criteria = study.archive.criteria if settings.every_epoch else None
    states_folder = state_storage(settings, out)
    limit = _checkpoint_limit(settings, target, study.archive.criteria)
    checkpoints = CheckpointManager(out, criteria, states=states_folder, syncer=syncer, limit=limit)
    metric_names = primary_metrics(target.data.modality)
    sweep = OpenSweep(
        out=out,
        settings=settings,
        targets=targets,
        log=log,
        controller=controller,
        states=states,
        console=console,
        tables=TableWriter(
            tables,
            checkpoints.find,
            every_epoch=settings.every_epoch,
            is_deleted=checkpoints.was_deleted if limit else None,
        ),
        checkpoints=checkpoints,
        tracker=_tracker(log, settings, target, checkpoints, sweep_id=sweep_id, syncer=syncer),
        display=Display(console, log.state, study.archive, trials=settings.trials, scores=metric_names),
        syncer=syncer,
        shares=_shares(settings) if settings.shares_gpus else None,
    )
    attach(sweep)
    return sweep


def _requeue(
    log: EventLog, settings: SweepSettings, out: Path, *, retry_failed: bool, console: Console
) -> dict[str, SavedState]:
    """Requeue unfinished trials, trials without a result and, if ``retry_failed`` is true, failed trials.

    Return the saved states from which the requeued trials continue, by trial id.
    """
    failed_ids = [
        trial.id
        for trial in log.state.ended_trials
        if not trial.has_result
        or (retry_failed and trial.outcome is not None and trial.outcome.status is Status.FAILED)
    ]
    if failed_ids:
        console.print(f"failed trials that run again: {', '.join(sorted(failed_ids))}", soft_wrap=True)
    last_step_by_trial = {
        trial.id: trial.last_step
        for trial in log.state.trials.values()
        if trial.outcome is None or trial.id in failed_ids
    }
    states = find_states(settings, out, last_step_by_trial)
    for trial_id, last_step in last_step_by_trial.items():
        is_cut = log.state.trials[trial_id].cut is not None  # the decision stands, and so do the reports before it
        state_step = states[trial_id].step if trial_id in states else -1
        log.record(TrialRequeued(trial_id, last_step if is_cut else state_step))
    return states


def attach(sweep: OpenSweep) -> None:
    """Attach all followers to the event log, in the order in which each of them receives an event."""
    sweep.display.remaining = sweep.estimate
    followers: Sequence[Follower | None] = (
        sweep.tables,
        sweep.syncer,
        sweep.controller,  # tells Optuna the result of a trial before the trial's files are deleted
        sweep.checkpoints,
        sweep.tracker,
        sweep.shares,
        sweep.display,
    )
    sweep.log.attach(*(follower for follower in followers if follower is not None))
    sweep.log.record(SweepStarted(sweep.settings.trials))


def _checkpoint_limit(settings: SweepSettings, target: Target, criteria: Criteria) -> CheckpointLimit | None:
    """Return the limit of ``--keep-checkpoints``; None if all checkpoints are kept. Raises KeepError."""
    keep = parse_keep(settings.keep_checkpoints)
    if keep is None:
        return None
    size = estimate_disk(settings.base, Path(target.path), models=0, running=0).checkpoint
    return CheckpointLimit(keep.count(size), criteria)


def _shares(settings: SweepSettings) -> GpuShares:
    """Return the GPU sharing, with the memory measured in the sweeps of --warm-start and --reuse."""
    shares = GpuShares()
    source_folders = [*settings.warm_start, *settings.reuse]
    for folder in dict.fromkeys(source_folders):  # each folder once
        shares.learn(ResultTables(Path(folder)).trials.read())
    return shares


def _tracker(
    log: EventLog,
    settings: SweepSettings,
    target: Target,
    checkpoints: CheckpointManager,
    *,
    sweep_id: str,
    syncer: Syncer | None,
) -> Tracker:
    sweep = TrackedSweep.of(settings, target, id=sweep_id, out=log.path.parent.resolve())
    store = ExperimentStore.at(settings.tracking_uri, settings.experiment)
    is_awaited = (lambda trial_id: False) if syncer is None else syncer.is_awaited
    return Tracker(log, sweep, store, checkpoints, is_awaited)
