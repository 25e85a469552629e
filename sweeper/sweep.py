"""A sweep from settings to a finished folder; resuming is the same function on a folder that has begun.

What is done is read from disk (trials.csv, then optuna.log, then the saved states of running trials), and Ray Tune gets
what is left.
"""

from __future__ import annotations

import datetime
import fcntl
import importlib.metadata
import json
import logging
import os
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from sweeper.display import Display
from sweeper.ledger import Ledger, write_json
from sweeper.placement import PlacementError, address_problem, ray_cluster
from sweeper.session import SweepSession, run_state_folders
from sweeper.settings import SweepSettings
from sweeper.study import Proposal, SweepStudy
from sweeper.targets import prepare_with_progress
from sweeper.tracking import Tracker
from sweeper.tracking.uri import shown_uri, sqlite_path
from trainables.data import IMAGE_DATASETS
from trainables.problem import load_problem
from trainables.spec import TrialSpec
from trainables.target import Target, trained_key

logger = logging.getLogger(__name__)
FORMAT = 1
WORKER_RESTARTS = 3
_VERSIONS = ("unlearning-sweeper", "torch", "ray", "transformers", "optuna", "mlflow", "peft", "datasets", "moocore")


class SweepError(RuntimeError):
    """The sweep cannot start or go on; the message is a plain sentence for the user."""


class UsageError(SweepError):
    """The folder given is not what the command needs."""


class Interrupted(Exception):
    """The user stopped the sweep; everything finished is on disk."""


@dataclass(frozen=True, slots=True)
class Summary:
    """How a sweep ended, for people and for ``--json``."""

    out: Path
    counts: Mapping[str, int]
    trials: int
    asked: int
    hypervolume: float | None
    front: int
    tracking: str

    def to_dict(self) -> dict[str, object]:
        """JSON-able."""
        return {
            "out": str(self.out),
            "trials": self.trials,
            "asked": self.asked,
            "status": dict(self.counts),
            "hypervolume": self.hypervolume,
            "front": self.front,
            "tracking": self.tracking,
        }


def begin(settings: SweepSettings, out: Path) -> None:
    """Make the folder of a new sweep, with the settings in it, so that it can be resumed from its first moment."""
    if (out / "sweep.json").exists():
        raise UsageError(f"{out} holds another sweep")
    out.mkdir(parents=True, exist_ok=True)
    (out / "checkpoints").mkdir(exist_ok=True)
    write_json(out / "sweep.json", _description(settings, {"created": _now()}))


def discard(out: Path) -> None:
    """Remove the folder of a sweep that could not begin, so that the mended command can have it; never a trial."""
    if not (out / "trials.csv").exists():
        shutil.rmtree(out, ignore_errors=True)


def read_settings(out: Path) -> SweepSettings:
    """The settings of the sweep in a folder.

    Raises:
        SweepError: there is no sweep, or its file cannot be read.
    """
    path = out / "sweep.json"
    if not path.is_file():
        raise UsageError(f"{out} holds no sweep: there is no sweep.json in it")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise UsageError(f"{path} has format {content['format']}, this version reads format {FORMAT}")
        settings = SweepSettings.from_dict(content["settings"])
        objectives = settings.parsed_objectives
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from None
    # Sweeps from before there were distances have optimised such a metric itself.
    if old := [item.name for item in objectives if item.metric not in (item.name, *settings.base.metrics)]:
        raise UsageError(
            f"the sweep in {out} optimises {', '.join(old)} itself and not its distance from the ideal: new trials "
            "could not be compared with the old ones; begin a new sweep"
        )
    return settings


def run(out: Path, *, console: Console) -> Summary:
    """Run the sweep in ``out``, from wherever it stands, to its end and its report.

    Raises:
        SweepError, PlacementError, DataError, TargetError: with a plain sentence.
        Interrupted: stopped by Ctrl-C or SIGTERM; ``run`` again goes on.
    """
    settings = read_settings(out)
    with _exclusive(out), _interruptible():
        if settings.address is not None:
            _require_cluster(settings, out)
        content = json.loads((out / "sweep.json").read_text(encoding="utf-8"))
        begun_with = content.get("target")
        changed = UsageError(
            f"the model or the data of the sweep in {out} have changed since it began: new trials could not be "
            "compared with the old ones; begin a new sweep"
        )
        if begun_with and _trains_another(settings.base, Path(begun_with["path"])):
            raise changed
        target = prepare_with_progress(settings.base, console=console)
        if begun_with and begun_with["key"] != target.key:
            raise changed
        write_json(out / "sweep.json", _description(settings, content, target))
        return _run(settings, out, target, console)


def _trains_another(base: TrialSpec, begun_with: Path) -> bool:
    """Whether another target than that of the sweep's beginning would be fine-tuned, which may take hours, in vain."""
    return base.target_path is None and trained_key(base, load_problem(base)) != begun_with.name


def _require_cluster(settings: SweepSettings, out: Path) -> None:
    """Join the cluster and leave it: what it cannot do is to be said before a target is fine-tuned for hours."""
    if problem := address_problem(settings.address):
        raise PlacementError(problem)
    with _joined(settings, (out.resolve(),)):
        pass


@contextmanager
def _joined(settings: SweepSettings, shared: tuple[Path, ...]) -> Iterator[int]:
    """Ray, with how many trials fit at once. A signal waits until Ray has started: half started, it leaves processes
    behind, or crashes."""
    with ExitStack() as stack:
        with _held_back():
            slots = stack.enter_context(ray_cluster(settings.address, resources=settings.resources, shared=shared))
        yield slots


def _run(settings: SweepSettings, out: Path, target: Target, console: Console) -> Summary:
    ledger = Ledger(out)
    study = SweepStudy(
        out,
        space=settings.space,
        objectives=settings.parsed_objectives,
        sampler=settings.sampler,
        trials=settings.trials,
        seeds=settings.all_seeds,
        seed=settings.seed,
    )
    rows = {row["trial_id"]: row for row in ledger.trials.read()}
    again = study.take_up(rows)
    storage = settings.ray_storage(out)
    restore = _restorable(storage, again)
    ledger.mend({trial_id: step for trial_id, (_, step) in restore.items()})
    tracker = Tracker(
        uri=settings.tracking_uri,
        experiment=settings.experiment,
        sweep_name=settings.name,
        spool=out / "mlflow-spool",
        parent_params={"trials": settings.trials, "sampler": settings.sampler, **settings.base.row()},
        parent_tags={"sweep": settings.name, "out": str(out.resolve()), "objectives": settings.objectives},
        artifact_root=(sqlite_path(settings.tracking_uri) or Path.cwd() / "mlflow.db").parent / "mlartifacts",
    )
    session = SweepSession(
        ledger=ledger,
        storage=storage,
        study=study,
        tracker=tracker,
        display=Display(console, trials=settings.trials, done=len(rows)),
        make_spec=lambda config: settings.make_spec(config, target_key=target.key),
    )
    session.send_missing(rows)
    try:
        left = settings.trials - len(rows)
        if left > 0:
            folders = {trial_id: folder for trial_id, (folder, _) in restore.items()}
            _tune(settings, out, target, session, left=left, restore=folders)
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
    settings: SweepSettings, out: Path, target: Target, session: SweepSession, *, left: int, restore: Mapping[str, str]
) -> None:
    """Hand the trials that are left to Ray Tune and wait."""
    with _joined(settings, (out.resolve(), Path(target.path))) as slots:
        from ray import tune
        from ray.tune import CheckpointConfig, FailureConfig, RunConfig, TuneConfig

        from sweeper.tune_bridge import SessionCallback, SessionSearcher
        from trainables.ray_trainable import UnlearningTrainable

        trainable = tune.with_parameters(
            UnlearningTrainable,
            target=target,
            out=str(out.resolve()),
            cpus=settings.cpus_per_trial,
            gpus=settings.gpus_per_trial,
        )
        deadline = None
        if settings.time_budget_seconds is not None:
            deadline = time.monotonic() + settings.time_budget_seconds
        storage = settings.ray_storage(out)
        attempt = 1 + sum(1 for path in storage.glob("attempt-*") if path.is_dir())
        tuner = tune.Tuner(
            tune.with_resources(trainable, settings.resources.as_ray()),
            tune_config=TuneConfig(
                search_alg=SessionSearcher(session, restore_folders=restore, deadline=deadline),
                num_samples=left,
                max_concurrent_trials=min(settings.max_concurrent or slots, slots),
                reuse_actors=True,
                trial_name_creator=_trial_name,
                trial_dirname_creator=_trial_name,
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
        _listen()  # ray.init has put its own handler on SIGTERM
        try:
            tuner.fit()
        finally:
            signal.signal(signal.SIGUSR1, signal.SIG_DFL)


def _trial_name(trial: Any) -> str:
    return str(trial.config["trial_id"])


def _conclude(settings: SweepSettings, out: Path, session: SweepSession, console: Console) -> Summary:
    """Order the tables, write the report, log both to MLflow; say what is missing."""
    from analysis.report import write_report

    rows = session.ledger.trials.read()
    complete = len(rows) >= settings.trials or settings.time_budget_seconds is not None
    interrupted = _interrupted.is_set() or not complete
    if rows or not interrupted:
        session.ledger.sort()
        write_report(out)
    front: dict[str, Any] = {}
    if (out / "pareto.json").is_file():
        front = json.loads((out / "pareto.json").read_text(encoding="utf-8"))
    tables = ("sweep.json", "trials.csv", "history.csv", "auto_lr.csv")
    names = (*tables, "pareto.json", "pareto.png", "pareto.svg", "report.html", "figures")
    metrics = {"hypervolume": front["hypervolume"]} if front.get("hypervolume") is not None else {}
    session.tracker.sweep_ended(
        status="interrupted" if interrupted else "finished",
        metrics=metrics,
        artifacts=[out / name for name in names if (out / name).exists()],
    )
    with console.status("sending what is left to MLflow") if console.is_terminal else _nothing():
        delivered = session.tracker.close(timeout=60.0)
    if session.unwritten:
        raise SweepError(f"{session.unwritten} finished trials could not be written to {out}: is the disk full?")
    if interrupted:
        raise Interrupted
    return Summary(
        out=out,
        counts=Counter(row["status"] for row in rows),
        trials=len(rows),
        asked=settings.trials,
        hypervolume=front.get("hypervolume"),
        front=len(front.get("front", ())),
        tracking=delivered.message or shown_uri(settings.tracking_uri),
    )


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


def _description(settings: SweepSettings, old: Mapping[str, Any], target: Target | None = None) -> dict[str, object]:
    """The content of sweep.json; what only the target knows is filled in once it is there."""
    import math

    guess = math.log(target.vocabulary_size) if target is not None else None
    unit = "image" if settings.base.dataset in IMAGE_DATASETS else "token"
    return {
        "format": FORMAT,
        "name": settings.name,
        "created": old["created"],
        "command": settings.command,
        "versions": {name: importlib.metadata.version(name) for name in _VERSIONS},
        "settings": settings.to_dict(),
        "objectives": [item.to_dict(guess, unit=unit) for item in settings.parsed_objectives]
        if guess is not None
        else None,
        "random_guess_loss": guess,
        "vocabulary_size": target.vocabulary_size if target is not None else None,
        "baseline": target.baseline if target is not None else None,
        "target": {"key": target.key, "path": target.path} if target is not None else None,
    }


@contextmanager
def _exclusive(out: Path) -> Iterator[None]:
    """Hold the folder: two drivers on one sweep would run every trial twice. A killed driver lets go by itself."""
    with (out / ".lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(f"the sweep in {out} is running in another process; wait for it or stop it") from None
        yield


_interrupted = threading.Event()


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM stop the sweep in order; see :func:`_listen`."""
    _interrupted.clear()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    _listen()
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _held_back() -> Iterator[None]:
    """Let a first signal take effect at the end of the block; a second one ends it at once."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def note(number: int, frame: object) -> None:
        if _interrupted.is_set():
            raise KeyboardInterrupt
        _interrupted.set()

    for number in before:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in before.items():  # Ray has put its own on SIGTERM
            signal.signal(number, handler)
    if _interrupted.is_set():
        raise KeyboardInterrupt


def _listen() -> None:
    """Take SIGINT and SIGTERM: while Tune's loop runs it is told to end by the SIGUSR1 it listens to; else, or at the
    second signal, KeyboardInterrupt ends whatever goes on."""

    def stop(number: int, frame: object) -> None:
        first = not _interrupted.is_set()
        _interrupted.set()
        if first and callable(signal.getsignal(signal.SIGUSR1)):
            os.kill(os.getpid(), signal.SIGUSR1)
        else:
            raise KeyboardInterrupt

    os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
