"""A sweep without Ray and MLflow that a test drives."""

from __future__ import annotations

import json
import math
import os
import socket
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial
from rich.console import Console

from search_spaces.builtin import default_space
from search_spaces.common.front import Criteria
from search_spaces.constraint import Constraint
from search_spaces.space import Space
from sweeper.controller import Controller
from sweeper.driver.open_sweep import OpenSweep, attach
from sweeper.execution import shutdown as interruption
from sweeper.execution.gpu_shares import GpuShares
from sweeper.followers.checkpoint_limit import CheckpointLimit
from sweeper.followers.checkpoints import CheckpointManager
from sweeper.followers.display import Display
from sweeper.followers.syncer import Syncer
from sweeper.followers.tables import TableWriter
from sweeper.search.archive import ParetoArchive
from sweeper.search.reuse import ReusableTrials
from sweeper.search.samplers import Search
from sweeper.search.study import STUDY_NAME, SweepStudy, new_journal
from sweeper.settings.objectives import DEFAULT_OBJECTIVES, parse_objectives, with_bounds
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.store.event_log import EventLog
from sweeper.store.events import TrialEnded, TrialProposed, TrialStarted
from sweeper.store.saved_states import state_storage
from sweeper.store.tables import ResultTables
from trainables.data import UnlearningData
from trainables.methods import options_by_method
from trainables.metrics.registry import LOSS_METRICS, METRICS
from trainables.run.reports import EpochReport, Execution, Outcome, Status, Timers
from trainables.spec import TrialSpec
from trainables.target.target import Target


@pytest.fixture(autouse=True)
def _not_interrupted() -> Iterator[None]:
    """Reset the interruption after each test, because the state is global to the process."""
    yield
    interruption._state = interruption._State()


@pytest.fixture(scope="session")
def tiny_phi(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint folder with a random tiny Phi and its tokenizer. Tests copy this folder and do not change it."""
    from trainables.data import load_data
    from trainables.models.checkpoints import save_model
    from trainables.models.tiny import make_tiny, tokenizer_for

    folder = tmp_path_factory.mktemp("tiny") / "phi"
    tokenizer = tokenizer_for("tiny-phi", load_data("authors", limit=20).full)
    save_model(make_tiny("tiny-phi", tokenizer), tokenizer, folder)
    return folder


@pytest.fixture
def dead_uri() -> str:
    """A loopback address without a server."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


@pytest.fixture
def hung_uri() -> Iterator[str]:
    """A server that accepts connections and never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(16)
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def write_questions(folder: Path, *names: str, count: int = 4) -> Path:
    """Write ``count`` questions with answers to each NAME.jsonl for data set jsonl. Return the folder."""
    folder.mkdir(exist_ok=True)
    for name in names or ("forget", "retain"):
        rows = [{"question": f"What is {name} {n}?", "answer": f"It is {n}."} for n in range(count)]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


METHODS = options_by_method(("gdiff", "ngdiff"))
SPACE = default_space(methods=METHODS)
GRID = default_space(methods=METHODS, options={"gdiff.c": (0.1, 0.9)}, lr=(1e-4, 1e-5))
Row = dict[str, object]
Proposal = tuple[str, dict[str, Any]]
"""The id and the configuration of a trial."""
FINE: Row = {"status": "finished", "forget_loss_capped": 2.0, "retain_loss": 0.5}


def epoch_report(step: int, **values: Any) -> EpochReport:
    """Return a report. ``values`` has fields of the report, losses, metrics and training columns by name."""
    return EpochReport(**{"step": step, "epoch": float(step), **_grouped(EpochReport, values)})


def outcome(status: str = "finished", **values: Any) -> Outcome:
    """Return an outcome. ``values`` has fields of the outcome and of its execution, losses and metrics by name."""
    return Outcome(status=Status(status), **_grouped(Outcome, values))


def _grouped(cls: type[EpochReport | Outcome], values: Mapping[str, Any]) -> dict[str, Any]:
    own, *names = ({item.name for item in fields(kind)} for kind in (cls, Execution, Timers))
    key_of = {name: key for key, group in zip(("execution", "timers"), names, strict=True) for name in group}
    key_of |= dict.fromkeys(METRICS, "metrics") | dict.fromkeys(LOSS_METRICS, "losses")
    groups: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for name, value in values.items():
        if name not in own and value is not None:
            groups[key_of.get(name, "training")][name] = value
    grouped: dict[str, Any] = {**groups, **{name: value for name, value in values.items() if name in own}}
    for key, kind in (("execution", Execution), ("timers", Timers)):
        if key in groups:
            grouped[key] = kind(**groups[key])
    return grouped


OUTCOME = outcome(
    steps=4,
    epochs_done=2.0,
    forget_loss=9.0,
    forget_loss_capped=7.6,
    retain_loss=0.25,
    verbmem=0.1,
    wall_seconds=1.5,
    checkpoint="checkpoints/00000",
)
SETTINGS = SweepSettings(name="sweep", base=TrialSpec(), space=SPACE, trials=3, sampler="random")
TARGET = Target(
    key="key",
    path="/nowhere",
    data=UnlearningData(name="none", forget=(), retain=(), full=(), forget_eval=(), retain_eval=()),
    vocabulary_size=100,
    baseline={"forget_loss": 0.1, "retain_loss": 0.2, "utility": math.nan},
    reference_nll=(),
    max_length=512,
)


def open_study(
    out: Path,
    *,
    space: Space = SPACE,
    sampler: str = "random",
    trials: int = 4,
    seeds: Sequence[int] = (0,),
    seed: int = 0,
    constraints: Sequence[Constraint] = (),
    begin: Mapping[str, Any] | None = None,
    extension: Sequence[Mapping[str, Any]] = (),
    random_guess: float = 8.0,
) -> SweepStudy:
    """Return the study of a sweep in ``out``, restored from its event log. ``begin`` has the arguments of ``begin``."""
    out.mkdir(exist_ok=True)
    state = EventLog(out / "events.jsonl").state
    study = SweepStudy(
        new_journal(out),
        ParetoArchive(Criteria(with_bounds(parse_objectives(DEFAULT_OBJECTIVES), random_guess), tuple(constraints))),
        Search(space=space, trials=trials, seed=seed, proposed_trials=len(state.trials)),
        sampler=sampler,
        seeds=seeds,
        extension=extension,
    )
    study.begin(**begin or {})
    study.restore(state)
    return study


def finished_row(config: Mapping[str, Any]) -> Row:
    """Return the row of a finished trial. The losses depend only on lr."""
    distance = abs(math.log10(config["lr"]) + 4)
    return {"status": "finished", "forget_loss_capped": 5 - distance, "retain_loss": distance}


def drive(
    study: SweepStudy,
    out: Path | None = None,
    *,
    row_of: Callable[[Mapping[str, Any]], Row] = finished_row,
    proposed: list[Proposal] | None = None,
) -> list[Proposal]:
    """Run the study to its end as a sweep does, with the event log in ``out``.

    Return ``proposed`` with the new proposals.
    """
    proposed = [] if proposed is None else proposed
    log = None if out is None else EventLog(out / "events.jsonl")
    while (proposal := study.ask()) is not None:
        trial_id, config = proposal
        proposed.append(proposal)
        if log is not None and trial_id not in log.state.trials:
            log.record(TrialProposed(trial_id, config, study.optuna_data(trial_id)))
        row = row_of(config)
        if log is not None:
            assert trial_id not in log.state.ended, f"trial {trial_id} has ended and is run again"
            log.record(TrialEnded(trial_id, outcome(**row)))
        study.tell(trial_id, row)
    return proposed


def plain_trials(out: Path) -> list[FrozenTrial]:
    """Return the trials in the Optuna journal, read without this project."""
    storage = JournalStorage(JournalFileBackend(str(out / "optuna.log")))
    found: list[FrozenTrial] = optuna.load_study(study_name=STUDY_NAME, storage=storage).trials
    return found


def states(out: Path) -> Counter[str]:
    return Counter(trial.state.name for trial in plain_trials(out) if "prior" not in trial.user_attrs)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test in an empty folder, with an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip fsync. A killed process loses no data that the system has accepted, so tests of kills need no fsync."""
    monkeypatch.setattr(os, "fsync", lambda number: None)


def bare_sweep(
    out: Path,
    settings: SweepSettings = SETTINGS,
    *,
    study: SweepStudy | None = None,
    tracker: Any = None,
    console: Console | None = None,
    syncer: Syncer | None = None,
    shares: GpuShares | None = None,
    limit: int | None = None,
    **controller: Any,
) -> OpenSweep:
    """Open a sweep without Ray that a test drives. If the folder has events, the sweep is resumed.

    ``limit`` is the maximum number of stored models. ``controller`` has further fields of the sweep's controller.
    """
    log = EventLog(out / "events.jsonl")
    study = study or open_study(out, space=settings.space, trials=settings.trials)
    console = console or Console(quiet=True)
    criteria = study.archive.criteria
    checkpoints = CheckpointManager(
        out,
        criteria,
        states=state_storage(settings, out),
        syncer=syncer,
        limit=None if limit is None else CheckpointLimit(limit, criteria),
    )
    fields: dict[str, Any] = {
        "make_spec": lambda config: settings.make_spec(config, target_key="key"),
        "reusable": ReusableTrials(),
    }
    sweep = OpenSweep(
        out=out,
        settings=settings,
        targets={0: TARGET},
        log=log,
        controller=Controller(log=log, study=study, **(fields | controller)),
        states={},
        console=console,
        tables=TableWriter(
            ResultTables(out),
            checkpoints.find,
            every_epoch=settings.every_epoch,
            is_deleted=checkpoints.was_deleted if limit else None,
        ),
        checkpoints=checkpoints,
        tracker=tracker or Mock(),
        display=Display(console, log.state, study.archive, trials=settings.trials),
        syncer=syncer,
        shares=shares,
    )
    attach(sweep)
    return sweep


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


@pytest.fixture
def sweep(out: Path) -> OpenSweep:
    return bare_sweep(out)


def running(sweep: OpenSweep) -> str:
    """Start the next trial and return its id."""
    following = sweep.controller.next_trial()
    assert following is not None
    sweep.log.record(TrialStarted(following.id))
    return following.id


def report(sweep: OpenSweep, trial_id: str, step: int, **values: Any) -> None:
    """Report an epoch of one step, as a worker does. The scheduler decides whether the trial continues."""
    sweep.controller.report(trial_id, epoch_report(step, **{"forget_loss": step / 3, **values}))


def end_trial(sweep: OpenSweep, trial_id: str, outcome: Outcome = OUTCOME) -> None:
    sweep.log.record(TrialEnded(trial_id, outcome))


def wait_until(condition: Callable[[], object]) -> None:
    """Poll until the condition is true. Fail after two minutes."""
    deadline = time.monotonic() + 120.0
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def run_trial(sweep: OpenSweep, *, steps: int = 2, outcome: Outcome = OUTCOME) -> str:
    """Run the next trial to its end and return its id."""
    trial_id = running(sweep)
    for step in range(1, steps + 1):
        report(sweep, trial_id, step)
    end_trial(sweep, trial_id, outcome)
    return trial_id
