"""A sweep's session as it is opened: everyone who takes part, told of what has been done already."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from rich.console import Console

from sweeper.candidates import FrontKeeper
from sweeper.columns import unused_columns
from sweeper.courier import Courier
from sweeper.display import Display
from sweeper.earlier import by_trial, known_trials
from sweeper.estimate import Pace
from sweeper.export.spec_of_row import spec_of_row
from sweeper.gpu_share import GpuShares
from sweeper.ledger import Ledger
from sweeper.lost_rows import put_back
from sweeper.open_study import open_study
from sweeper.run_states import restorable, restorable_from
from sweeper.scheduling.open_scheduler import open_scheduler
from sweeper.session import SweepSession
from sweeper.settings import SweepSettings
from sweeper.stopping import Stopping, parse_until
from sweeper.tracking import Tracker
from sweeper.tracking.logged import LoggedData
from sweeper.tracking.runs import SHOWN
from sweeper.tracking.uri import sqlite_path
from sweeper.watch.course import Course
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
    ledger = Ledger(out, every_epoch=bool(settings.goals), without=unused)
    study = open_study(out, settings, target, console=console)
    rows = {row["trial_id"]: row for row in ledger.trials.read()}
    failed = {name for name, row in rows.items() if retry_failed and row["status"] == Status.FAILED}
    failed |= {name for name, row in rows.items() if is_no_result(row["status"], row["error"])}
    rows = {name: row for name, row in rows.items() if name not in failed}
    if failed:
        console.print(f"failed trials that run again: {', '.join(sorted(failed))}", highlight=False, soft_wrap=True)
    if settings.goals and (found := put_back(ledger, [*rows.values()], eval_every=settings.base.eval_every)):
        console.print(found, highlight=False, soft_wrap=True)
    again = study.take_up(rows, by_trial(ledger.candidates.read()))
    storage, courier = settings.ray_storage(out), None if settings.bucket is None else Courier(out, settings.bucket)
    restore = restorable(storage, again) if courier is None else restorable_from(courier.storage, again, ledger)
    ledger.mend({trial_id: step for trial_id, (_, step) in restore.items()}, again=failed)
    if courier is not None:
        for row in rows.values():  # before the tracker looks for what they left
            courier.expect(row)
        courier.written(urgent=True)  # from here on the address alone suffices to go on
    stopping = Stopping(plateau=parse_until(settings.until), epoch_budget=settings.epoch_budget)
    trained_here = ledger.trained_here()
    stopping.take_up(trained_here)
    pace = Pace(trials=settings.trials, stopping=stopping)
    pace.take_up(rows.values())
    course = Course(resources=settings.resources)
    for row in rows.values():
        course.ended(row)
    reused = [Path(folder) for folder in settings.reuse if (Path(folder) / "trials.csv").is_file()]
    session = SweepSession(
        ledger=ledger,
        storage=storage,
        study=study,
        tracker=_tracker(settings, ledger, sweep_id, targets, courier),
        display=Display(
            console,
            trials=settings.trials,
            done=len(rows),
            scores=primary_metrics(target.data.modality),
            course=course,
        ),
        make_spec=lambda config: settings.make_spec(config, target_key=targets.get(config["seed"], target).key),
        front=FrontKeeper(out, settings.goals, courier=courier) if settings.goals else None,
        courier=courier,
        scheduler=open_scheduler(settings, target, trained_here),
        stopping=stopping,
        pace=pace,
        known=known_trials(reused),
        shares=_shares(settings, rows.values()) if settings.shares_gpus else None,
    )
    return session, {trial_id: folder for trial_id, (folder, _) in restore.items()}


def _shares(settings: SweepSettings, rows: Iterable[Mapping[str, object]]) -> GpuShares:
    """With the peaks that this sweep and earlier ones have measured."""
    shares = GpuShares()
    for folder in dict.fromkeys((*settings.warm_start, *settings.reuse)):
        shares.take_up(Ledger(Path(folder)).trials.read(), spec_of_row)
    shares.take_up(rows, spec_of_row)
    return shares


def _tracker(
    settings: SweepSettings,
    ledger: Ledger,
    sweep_id: str,
    targets: Mapping[int, Target],
    courier: Courier | None,
) -> Tracker:
    shown = (*primary_metrics(next(iter(targets.values())).data.modality), "forget_loss", "retain_loss")
    return Tracker(
        ledger=ledger,
        sweep_id=sweep_id,
        uri=settings.tracking_uri,
        experiment=settings.experiment,
        sweep_name=settings.name,
        parent_params={"trials": settings.trials, "sampler": settings.sampler, **settings.params},
        parent_tags={
            "sweep": settings.name,
            "out": str(ledger.out.resolve()),
            "objectives": settings.objectives,
            SHOWN: ",".join(shown),
        },
        artifact_root=(sqlite_path(settings.tracking_uri) or Path.cwd() / "mlflow.db").parent / "mlartifacts",
        data=_logged_data(settings, targets),
        is_awaited=(lambda trial_id: False) if courier is None else courier.is_awaited,
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
