"""A sweep from settings to a finished folder; resuming is the same function on a folder that has begun.

What is done is read from disk (trials.csv, then optuna.log, then the saved states of running trials), and Ray Tune gets
what is left.
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from search_spaces.durable import exclusive
from search_spaces.messages import counted
from sweeper.candidates import FrontKeeper
from sweeper.display import Display
from sweeper.earlier import by_trial, known_trials
from sweeper.estimate import Pace
from sweeper.folder import SweepError, UsageError, describe, read_origin, read_settings
from sweeper.front_metrics import measure_front, unmeasured
from sweeper.interruption import Interrupted, forget_tune, held_back, interruptible, is_interrupted
from sweeper.ledger import Ledger
from sweeper.open_study import open_study
from sweeper.placement import PlacementError, address_problem, ray_cluster
from sweeper.progress import prepare_with_progress
from sweeper.scheduling.open_scheduler import columns_compared, open_scheduler
from sweeper.scheduling.schedulers import NONE
from sweeper.search import Proposal
from sweeper.session import SweepSession, remove_run_states, run_state_folders
from sweeper.settings import SweepSettings
from sweeper.stopping import End, Stopping, parse_until
from sweeper.tracking import Tracker
from sweeper.tracking.uri import shown_uri, sqlite_path
from trainables.metrics.registry import primary_metrics
from trainables.spec import TrialSpec
from trainables.target.problem import problem_of
from trainables.target.target import Target

WORKER_RESTARTS = 3
_KEPT = (
    *("sweep.json", "trials.csv", "history.csv", "auto_lr.csv", "candidates.csv"),
    *("pareto.json", "pareto.png", "pareto.svg", "report.html", "figures"),
)
"""What MLflow keeps with the sweep's run."""


@dataclass(frozen=True, slots=True)
class Summary:
    """How a sweep ended, for people and for ``--json``; ``status`` has how many trials ended in which one.

    ``front`` counts what is on the frontier, ``front_trials`` the trials it is of. ``answer`` is what the report
    answers, None where it has none.
    """

    out: str
    trials: int
    asked: int
    status: Mapping[str, int]
    hypervolume: float | None
    front: int
    tracking: str
    answer: Mapping[str, Any] | None = None
    front_trials: int | None = None
    reused: int = 0
    ended_because: str | None = None
    further: str = ""


def run(out: Path, *, console: Console, change: Mapping[str, Any] | None = None) -> Summary:
    """Run the sweep in ``out``, from wherever it stands, to its end and its report.

    ``change`` has settings, by name, that it is to go on with, such as more ``trials``.

    Raises:
        SweepError, PlacementError, DataError, TargetError: with a plain sentence.
        Interrupted: stopped by Ctrl-C or SIGTERM; ``run`` again goes on.
    """
    settings = read_settings(out)
    in_use = UsageError(f"the sweep in {out} is running in another process; wait for it or stop it")
    with interruptible(), exclusive(out, in_use):  # two drivers would run every trial twice
        settings = replace(settings, **(change or {}))
        origin = read_origin(out)
        if origin.target_path is None and settings.address is not None:
            # What the cluster cannot do is to be said before a target is fine-tuned for hours.
            with _joined(settings, (out.resolve(),)):
                pass
        changed = UsageError(
            f"the model or the data of the sweep in {out} have changed since it began: new trials could not be "
            "compared with the old ones; begin a new sweep"
        )
        first, *further = settings.target_seeds
        if origin.target_path and _trains_another(settings.base_of(first), Path(origin.target_path)):
            raise changed
        target = prepare_with_progress(settings.base_of(first), console=console)
        if origin.target_key not in (None, target.key):
            raise changed
        targets = {first: target}
        targets |= {seed: prepare_with_progress(settings.base_of(seed), console=console) for seed in further}
        if len({item.vocabulary_size for item in targets.values()}) > 1:
            raise SweepError(
                "the targets of the seeds have vocabularies of different sizes: their losses share no bound"
            )
        describe(out, settings, origin, target=target, targets=targets)
        return _run(settings, out, origin.sweep_id, targets, console)


def _trains_another(base: TrialSpec, begun_with: Path) -> bool:
    """Whether another target than that of the sweep's beginning would be fine-tuned, which may take hours, in vain."""
    return base.target_path is None and problem_of(base).trained_key != begun_with.name


@contextmanager
def _joined(settings: SweepSettings, shared: tuple[Path, ...]) -> Iterator[int]:
    """Ray, with how many trials fit at once. A signal waits until Ray has started: half started, it leaves processes
    behind, or crashes."""
    if problem := address_problem(settings.address):
        raise PlacementError(problem)
    with ExitStack() as stack:
        with held_back():
            slots = stack.enter_context(ray_cluster(settings.address, resources=settings.resources, shared=shared))
        yield slots


def _run(settings: SweepSettings, out: Path, sweep_id: str, targets: Mapping[int, Target], console: Console) -> Summary:
    target = next(iter(targets.values()))
    ledger = Ledger(out, every_epoch=bool(settings.goals))
    study = open_study(out, settings, target, console=console)
    rows = {row["trial_id"]: row for row in ledger.trials.read()}
    again = study.take_up(rows, by_trial(ledger.candidates.read()))
    storage = settings.ray_storage(out)
    restore = _restorable(storage, again)
    ledger.mend({trial_id: step for trial_id, (_, step) in restore.items()})
    tracker = Tracker(
        ledger=ledger,
        sweep_id=sweep_id,
        uri=settings.tracking_uri,
        experiment=settings.experiment,
        sweep_name=settings.name,
        parent_params={"trials": settings.trials, "sampler": settings.sampler, **settings.base.row()},
        parent_tags={"sweep": settings.name, "out": str(out.resolve()), "objectives": settings.objectives},
        artifact_root=(sqlite_path(settings.tracking_uri) or Path.cwd() / "mlflow.db").parent / "mlartifacts",
    )
    stopping = Stopping(plateau=parse_until(settings.until), epoch_budget=settings.epoch_budget)
    stopping.take_up(ledger.history.read(), but=[name for name, row in rows.items() if row.get("reused_from")])
    pace = Pace(trials=settings.trials, stopping=stopping)
    pace.take_up(rows.values())
    session = SweepSession(
        ledger=ledger,
        storage=storage,
        study=study,
        tracker=tracker,
        display=Display(console, trials=settings.trials, done=len(rows), scores=primary_metrics(target.data.modality)),
        make_spec=lambda config: settings.make_spec(config, target_key=targets.get(config["seed"], target).key),
        front=FrontKeeper(out, settings.goals) if settings.goals else None,
        scheduler=open_scheduler(settings, target, ledger.history.read()),
        stopping=stopping,
        pace=pace,
        known=known_trials([Path(folder) for folder in settings.reuse if (Path(folder) / "trials.csv").is_file()]),
    )
    try:
        left = settings.trials - len(rows)
        if left > 0 and session.has_next():
            folders = {trial_id: folder for trial_id, (folder, _) in restore.items()}
            _tune(settings, out, targets, session, left=left, restore=folders, console=console)
        else:
            session.stop_waiting()
            if settings.goals and unmeasured(out, most=settings.front_metrics):
                with _joined(settings, (out.resolve(), Path(target.path))):
                    measure_front(session, settings, target)
    except KeyboardInterrupt:
        pass  # what is finished gets its report below, which ends in Interrupted
    except BaseException:
        tracker.sweep_ended(status="failed", metrics={})
        tracker.close(timeout=10.0)
        raise
    finally:
        session.display.close()
    return _conclude(settings, out, session, console)


def _tune(
    settings: SweepSettings,
    out: Path,
    targets: Mapping[int, Target],
    session: SweepSession,
    *,
    left: int,
    restore: Mapping[str, str],
    console: Console,
) -> None:
    """Hand the trials that are left to Ray Tune and wait."""
    with _joined(settings, (out.resolve(), *(Path(target.path) for target in targets.values()))) as slots:
        from ray import tune
        from ray.tune import CheckpointConfig, FailureConfig, RunConfig, TuneConfig

        from sweeper.tune_bridge import SessionCallback, what_runs_when
        from trainables.ray_trainable import UnlearningTrainable

        at_once = min(settings.max_concurrent or slots, slots)
        _say_what_is_left(session, settings, at_once, console)
        trainable = tune.with_parameters(
            UnlearningTrainable,
            target=next(iter(targets.values())),
            targets={item.key: item for item in targets.values()},
            out=str(out.resolve()),
            cpus=settings.cpus_per_trial,
            gpus=settings.gpus_per_trial,
            goals=settings.goals,
        )
        deadline = None
        if settings.time_budget_seconds is not None:
            deadline = time.monotonic() + settings.time_budget_seconds
        storage = settings.ray_storage(out)
        attempt = 1 + sum(1 for path in storage.glob("attempt-*") if path.is_dir())
        tuner = tune.Tuner(
            tune.with_resources(trainable, {"cpu": settings.cpus_per_trial, "gpu": settings.gpus_per_trial}),
            tune_config=TuneConfig(
                **what_runs_when(
                    session,
                    left=left,
                    at_once=at_once,
                    columns=columns_compared(settings),
                    pausing=settings.scheduler != NONE and settings.stopping == "pause",
                    restore_folders=restore,
                    deadline=deadline,
                ),
                reuse_actors=True,
                trial_name_creator=lambda trial: str(trial.config["trial_id"]),
                trial_dirname_creator=lambda trial: str(trial.config["trial_id"]),
            ),
            run_config=RunConfig(
                name=f"attempt-{attempt}",
                storage_path=str(storage),
                callbacks=[SessionCallback(session)],
                failure_config=FailureConfig(max_failures=WORKER_RESTARTS),
                checkpoint_config=CheckpointConfig(num_to_keep=1),
                verbose=0,
            ),
        )
        logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
        try:
            tuner.fit()
        finally:
            forget_tune()
        if not is_interrupted():
            session.stop_waiting()
        measure_front(session, settings, next(iter(targets.values())))


def _say_what_is_left(session: SweepSession, settings: SweepSettings, at_once: int, console: Console) -> None:
    """Where some trials have ended already."""
    pace = session.pace
    if pace is not None:
        pace.at_once = at_once
        if pace.done:
            console.print(f"{pace.done} of {counted(settings.trials, 'trial')} done; left: {pace.estimate().words()}")


def _conclude(settings: SweepSettings, out: Path, session: SweepSession, console: Console) -> Summary:
    """Order the tables, write the report, log both to MLflow; say what is missing."""
    from analysis.page.report import write_report

    rows = session.ledger.trials.read()
    undone = len(rows) < settings.trials
    end = session.end if undone else None
    if undone and end is None and settings.time_budget_seconds is not None:
        end = End("the time budget")
    complete = not undone or end is not None
    interrupted = is_interrupted() or not complete
    for row in rows:  # a driver killed as a trial ended left the trial's saved states behind
        remove_run_states(session.storage, row["trial_id"])
    if rows or not interrupted:
        session.put_in_order()
        write_report(out)
    pareto = out / "pareto.json"
    front: dict[str, Any] = json.loads(pareto.read_text(encoding="utf-8")) if pareto.is_file() else {}
    session.tracker.sweep_ended(
        status="interrupted" if interrupted else "finished",
        metrics={"hypervolume": front.get("hypervolume")},
        artifacts=[out / name for name in _KEPT if (out / name).exists()],
        tags=_answer_tags(front.get("answer")),
        front=_by_trial(front.get("front", ())),
    )
    with console.status("sending what is left to MLflow") if console.is_terminal else nullcontext():
        delivered = session.tracker.close(timeout=60.0)
    if session.ledger.unwritten:
        raise SweepError(f"{session.ledger.unwritten} finished trials could not be written to {out}: is the disk full?")
    if interrupted:
        raise Interrupted
    return Summary(
        out=str(out),
        trials=len(rows),
        asked=settings.trials,
        status=dict(Counter(row["status"] for row in rows)),  # asdict cannot copy a Counter
        hypervolume=front.get("hypervolume"),
        front=len(front.get("front", ())),
        front_trials=len(_by_trial(front.get("front", ()))),
        tracking=delivered.message or shown_uri(settings.tracking_uri),
        answer=front.get("answer"),
        reused=sum(1 for row in rows if row.get("reused_from")),
        ended_because=end.because if end else None,
        further=end.further if end else "",
    )


def _by_trial(front: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Of each trial on the frontier, its epochs there with the places of their checkpoints."""
    found: dict[str, dict[str, str]] = {}
    for member in sorted(front, key=lambda member: member["step"] or 0):
        epochs = found.setdefault(member["trial_id"], {})
        epochs["last" if member["epoch"] is None else f"{member['epoch']:g}"] = member["checkpoint"] or ""
    return found


def _answer_tags(answer: Mapping[str, Any] | None) -> dict[str, object]:
    """What MLflow's parent run says of the sweep, as the report does."""
    if not answer:
        return {}
    told = " ".join(filter(None, (answer["headline"], answer["advice"], *answer["judged"])))
    recommended = answer["trial_id"] if answer["recommended"] else "none"
    outcome = {"outcome": answer["outcome"], "recommended_trial": recommended}
    if answer["recommended"] and answer["epoch"] is not None:
        outcome["recommended_epoch"] = f"{answer['epoch']:g}"
    return {"answer": answer["headline"], **outcome, "mlflow.note.content": told}


def _restorable(storage: Path, again: list[Proposal]) -> dict[str, tuple[str, int]]:
    """For trials that were running: the newest whole state of each, and its step."""
    if not again or not storage.is_dir():
        return {}
    from trainables.ray_trainable import read_state

    found = {}
    for proposal in again:
        for folder in run_state_folders(storage, proposal.trial_id):
            if (state := read_state(folder)) is not None:
                found[proposal.trial_id] = (str(folder.resolve()), int(state["step"]))
                break
    return found
