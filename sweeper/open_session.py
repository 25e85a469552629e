"""A sweep's session as it is opened: everyone who takes part, told of what has been done already."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from rich.console import Console

from sweeper.execution.gpu_shares import GpuShares
from sweeper.export.spec_of_row import spec_of_row
from sweeper.followers.checkpoints import CheckpointManager
from sweeper.followers.display import Display
from sweeper.followers.eta import Pace
from sweeper.followers.mlflow import Tracker
from sweeper.followers.mlflow.logged import LoggedData
from sweeper.followers.mlflow.runs import SHOWN
from sweeper.followers.progress import Course
from sweeper.followers.syncer import Syncer
from sweeper.search.cached_trials import cached_trials, rows_by_trial
from sweeper.search.schedulers import open_scheduler
from sweeper.search.stopping import Stopping, parse_until
from sweeper.search.study import open_study
from sweeper.session import SweepSession
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.settings.tracking_uri import sqlite_path
from sweeper.store.columns import unused_columns
from sweeper.store.lost_rows import put_back
from sweeper.store.saved_states import restorable, restorable_from
from sweeper.store.tables import ResultTables
from trainables.data import DATASETS
from trainables.metrics.registry import primary_metrics
from trainables.run.failures import is_no_result
from trainables.run.reports import Status
from trainables.target.target import Target


def open_session(
    settings: SweepSettings,
    out: Path,
    sweep_id: str,
    targets: Mapping[int, Target],
    *,
    console: Console,
    retry_failed: bool = False,
) -> tuple[SweepSession, dict[str, str]]:
    """The session of the sweep in ``out``, and of trials that were running, by id, the folder of the saved state.

    What the infrastructure ended counts as running; with ``retry_failed`` so does every failed trial.
    """
    target = next(iter(targets.values()))
    unused = unused_columns(settings.methods, settings.base.metrics)
    tables = ResultTables(out, every_epoch=bool(settings.goals), without=unused)
    study = open_study(out, settings, target, console=console)
    rows = {row["trial_id"]: row for row in tables.trials.read()}
    failed = {name for name, row in rows.items() if retry_failed and row["status"] == Status.FAILED}
    failed |= {name for name, row in rows.items() if is_no_result(row["status"], row["error"])}
    rows = {name: row for name, row in rows.items() if name not in failed}
    if failed:
        console.print(f"failed trials that run again: {', '.join(sorted(failed))}", highlight=False, soft_wrap=True)
    if settings.goals and (found := put_back(tables, [*rows.values()], eval_every=settings.base.eval_every)):
        console.print(found, highlight=False, soft_wrap=True)
    again = study.restore(rows, rows_by_trial(tables.candidates.read()))
    storage, syncer = settings.ray_storage(out), None if settings.bucket is None else Syncer(out, settings.bucket)
    restore = restorable(storage, again) if syncer is None else restorable_from(syncer.storage, again, tables)
    tables.mend({trial_id: step for trial_id, (_, step) in restore.items()}, again=failed)
    if syncer is not None:
        for row in rows.values():  # before the tracker looks for what they left
            syncer.expect(row)
        syncer.written(urgent=True)  # from here on the address alone suffices to go on
    stopping = Stopping(plateau=parse_until(settings.until), epoch_budget=settings.epoch_budget)
    trained_here = tables.trained_here()
    stopping.restore(trained_here)
    pace = Pace(trials=settings.trials, stopping=stopping)
    pace.take_up(rows.values())
    course = Course(resources=settings.resources)
    for row in rows.values():
        course.ended(row)
    reused = [Path(folder) for folder in settings.reuse if (Path(folder) / "trials.csv").is_file()]
    session = SweepSession(
        tables=tables,
        storage=storage,
        study=study,
        tracker=_tracker(settings, tables, sweep_id, targets, syncer),
        display=Display(
            console,
            trials=settings.trials,
            done=len(rows),
            scores=primary_metrics(target.data.modality),
            course=course,
        ),
        make_spec=lambda config: settings.make_spec(config, target_key=targets.get(config["seed"], target).key),
        front=CheckpointManager(out, settings.goals, syncer=syncer) if settings.goals else None,
        syncer=syncer,
        scheduler=open_scheduler(settings, target, trained_here),
        stopping=stopping,
        pace=pace,
        known=cached_trials(reused),
        shares=_shares(settings, rows.values()) if settings.shares_gpus else None,
    )
    return session, {trial_id: folder for trial_id, (folder, _) in restore.items()}


def _shares(settings: SweepSettings, rows: Iterable[Mapping[str, object]]) -> GpuShares:
    """With the peaks that this sweep and earlier ones have measured."""
    shares = GpuShares()
    for folder in dict.fromkeys((*settings.warm_start, *settings.reuse)):
        shares.restore(ResultTables(Path(folder)).trials.read(), spec_of_row)
    shares.restore(rows, spec_of_row)
    return shares


def _tracker(
    settings: SweepSettings,
    tables: ResultTables,
    sweep_id: str,
    targets: Mapping[int, Target],
    syncer: Syncer | None,
) -> Tracker:
    shown = (*primary_metrics(next(iter(targets.values())).data.modality), "forget_loss", "retain_loss")
    return Tracker(
        tables=tables,
        sweep_id=sweep_id,
        uri=settings.tracking_uri,
        experiment=settings.experiment,
        sweep_name=settings.name,
        parent_params={"trials": settings.trials, "sampler": settings.sampler, **settings.params},
        parent_tags={
            "sweep": settings.name,
            "out": str(tables.out.resolve()),
            "objectives": settings.objectives,
            SHOWN: ",".join(shown),
        },
        artifact_root=(sqlite_path(settings.tracking_uri) or Path.cwd() / "mlflow.db").parent / "mlartifacts",
        data=_logged_data(settings, targets),
        is_awaited=(lambda trial_id: False) if syncer is None else syncer.is_awaited,
    )


def _logged_data(settings: SweepSettings, targets: Mapping[int, Target]) -> dict[str, LoggedData]:
    """What trials are trained on, by the seed of the data."""
    base = settings.base
    hub_id = DATASETS[base.dataset].hub_id
    source: dict[str, object]
    if base.data_dir is not None:
        source_type, source = "local", {"uri": Path(base.data_dir).as_uri()}
    elif hub_id is not None:
        source_type, source = "hf", {"path": hub_id}
    else:
        source_type, source = "code", {"tags": {"data set": base.dataset}}
    found = {}
    for seed, target in targets.items():
        sizes = {name: len(getattr(target.data, name)) for name in ("forget", "retain", "forget_eval", "retain_eval")}
        data = LoggedData(target.data.name, target.data.content_hash, source_type, source, sizes)
        found[str(settings.base_of(seed).data_seed)] = data
    return found
