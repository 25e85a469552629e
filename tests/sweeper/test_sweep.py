"""A sweep's folder: begun once, held by one driver, resumed from whatever is whole in it. Real sweeps: tests/e2e."""

from __future__ import annotations

import fcntl
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from search_spaces.builtin import default_space
from sweeper.cluster import cluster_of
from sweeper.folder import Origin, SweepError, UsageError, begin, describe, discard, read_settings
from sweeper.interruption import Interrupted
from sweeper.open_session import open_session
from sweeper.placement import PlacementError
from sweeper.settings import SweepSettings
from sweeper.sweep import _ended, run, run_config
from sweeper.version import __version__, commit
from tests.sweeper.conftest import bare_session
from trainables.data import UnlearningData
from trainables.methods import options_by_method
from trainables.spec import TrialSpec
from trainables.target.target import Target

SETTINGS = SweepSettings(
    name="sweep",
    base=TrialSpec(dataset="tofu", epochs=2),
    space=default_space(methods=options_by_method(("gdiff",))),
    trials=2,
    tracking_uri="sqlite:////nowhere/mlflow.db",
    command="python -m sweeper pareto",
)
NO_DATA = UnlearningData(name="none", forget=(), retain=(), full=(), forget_eval=(), retain_eval=())
TARGET = Target(
    key="key",
    path="/nowhere",
    data=NO_DATA,
    vocabulary_size=100,
    baseline={"forget_loss": 0.1, "retain_loss": 0.2, "utility": math.nan},
    reference_nll=(),
)
CONSOLE = Console(quiet=True)

HOLDER = """
import fcntl, sys, time
file = open(sys.argv[1], "a+")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def out(tmp_path: Path) -> Path:
    begin(SETTINGS, tmp_path / "out")
    return tmp_path / "out"


@pytest.fixture(autouse=True)
def _no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray is there at once, with room for two trials."""
    monkeypatch.setattr("sweeper.cluster.ray_cluster", lambda address, **given: nullcontext(2))
    monkeypatch.setattr("sweeper.cluster.is_possible", lambda: False)
    monkeypatch.setattr("sweeper.cluster.require_shared", lambda shared: None)
    monkeypatch.setattr("sweeper.sweep.imported_beside", nullcontext)


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> None:
    """The target is there at once."""
    monkeypatch.setattr("sweeper.target_maker.prepare_with_progress", lambda spec, *, console: TARGET)
    monkeypatch.setattr("sweeper.sweep.problem_of", lambda spec: SimpleNamespace(trained_key=Path(TARGET.path).name))


def stop_before_ray(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def refuse(*arguments: object, **given: object) -> None:
        raise error

    monkeypatch.setattr("sweeper.sweep.open_session", refuse)


def description(out: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((out / "sweep.json").read_text())
    return content


# sweep.json ---------------------------------------------------------------------------------------------------------


def test_a_sweep_can_be_resumed_from_its_first_moment(out: Path) -> None:
    assert read_settings(out) == SETTINGS
    content = description(out)
    assert content["format"] == 2
    assert content["command"] == "python -m sweeper pareto"
    assert {"torch", "ray", "optuna", "mlflow"} <= set(content["versions"])
    assert content["versions"]["unlearning-sweeper"] == __version__
    assert content["commit"] == commit()
    assert content["baseline"] is None
    assert (out / "checkpoints").is_dir()


def test_a_sweep_is_in_its_bucket_as_soon_as_it_is_open(tmp_path: Path) -> None:
    """A driver that is killed before the first report leaves enough there to go on with."""
    out = tmp_path / "out"
    given = replace(SETTINGS, storage=(tmp_path / "bucket").as_uri(), tracking_uri=f"sqlite:///{tmp_path}/mlflow.db")
    begin(given, out)
    settings = read_settings(out)
    session, _ = open_session(settings, out, "an id", {0: TARGET}, console=CONSOLE)
    assert session.courier is not None
    assert settings.bucket is not None
    try:
        session.courier.settle()
        assert settings.bucket.read("sweep.json") == (out / "sweep.json").read_bytes()
    finally:
        session.display.close()
        session.tracker.close(timeout=10.0)
        session.courier.close(timeout=10.0)


def test_what_the_target_knows_is_added_when_it_is_there(
    out: Path, target: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = description(out)["created"]
    stop_before_ray(monkeypatch, SweepError("enough"))
    with pytest.raises(SweepError, match="enough"):
        run(out, console=CONSOLE)
    content = description(out)
    assert content["created"] == created
    assert content["vocabulary_size"] == 100
    assert content["random_guess_loss"] == math.log(100)
    assert content["baseline"] == {"forget_loss": 0.1, "retain_loss": 0.2, "utility": None}
    assert content["target"]["key"] == "key"
    assert [(item["column"], item["direction"], item["high"]) for item in content["objectives"]] == [
        ("forget_loss_capped", "max", math.log(100)),
        ("retain_loss", "min", math.log(100)),
    ]
    assert read_settings(out) == SETTINGS


def test_beginning_where_a_sweep_is_overwrites_nothing(out: Path) -> None:
    """Two commands started in the same second have the same default folder."""
    before = (out / "sweep.json").read_bytes()
    with pytest.raises((UsageError, FileExistsError)):
        begin(replace(SETTINGS, name="another"), out)
    assert (out / "sweep.json").read_bytes() == before


def test_a_folder_without_a_sweep_is_said_to_hold_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds no sweep: there is no sweep\.json"):
        read_settings(tmp_path)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "[]",
        lambda text: json.dumps({**json.loads(text), "settings": None}),
        lambda text: text.replace('"trials": 2', '"trails": 2'),
        lambda text: text.replace('"type": "float"', '"type": "real"'),
    ],
    ids=["torn", "a list", "no settings", "an unknown setting", "an unknown parameter type"],
)
def test_a_damaged_sweep_file_is_named(out: Path, damage: Any) -> None:
    path = out / "sweep.json"
    path.write_text(damage(path.read_text()))
    with pytest.raises(UsageError) as caught:
        read_settings(out)
    assert str(path) in str(caught.value)


def test_what_a_sweep_file_lacks_is_named(out: Path) -> None:
    path = out / "sweep.json"
    content = json.loads(path.read_text())
    del content["settings"]["base"]
    path.write_text(json.dumps(content))
    with pytest.raises(UsageError, match="it lacks 'base'; it is of another version, or damaged"):
        read_settings(out)


@pytest.mark.parametrize("other", [1, 999])
def test_a_sweep_of_another_format_is_not_resumed(out: Path, other: int) -> None:
    path = out / "sweep.json"
    path.write_text(path.read_text().replace('"format": 2', f'"format": {other}'))
    with pytest.raises(UsageError, match=f"has format {other}, .* begin a new sweep"):
        read_settings(out)


def test_a_sweep_is_not_resumed_on_another_target(out: Path, target: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The data or the model behind a path have changed: new trials could not be compared with the old ones."""
    stop_before_ray(monkeypatch, SweepError("reached Ray"))
    with pytest.raises(SweepError, match="reached Ray"):
        run(out, console=CONSOLE)
    before = (out / "sweep.json").read_bytes()

    monkeypatch.setattr(
        "sweeper.target_maker.prepare_with_progress", lambda spec, *, console: replace(TARGET, key="changed")
    )
    with pytest.raises(UsageError, match=r"(?i)target|data|model"):
        run(out, console=CONSOLE)
    assert (out / "sweep.json").read_bytes() == before


def test_the_target_of_changed_data_is_not_even_trained(
    out: Path, target: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_before_ray(monkeypatch, SweepError("reached Ray"))
    with pytest.raises(SweepError, match="reached Ray"):
        run(out, console=CONSOLE)

    def prepare(spec: TrialSpec, *, console: Console) -> Target:
        raise AssertionError("the target was trained first")

    monkeypatch.setattr("sweeper.target_maker.prepare_with_progress", prepare)
    monkeypatch.setattr("sweeper.sweep.problem_of", lambda spec: SimpleNamespace(trained_key="another"))
    with pytest.raises(UsageError, match=r"the model or the data .* have changed"):
        run(out, console=CONSOLE)


# One driver at a time -----------------------------------------------------------------------------------------------


def test_a_sweep_that_is_running_is_not_run_a_second_time(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_before_ray(monkeypatch, AssertionError("a second driver started"))
    with (out / ".lock").open("a+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match="running in another process"):
            run(out, console=CONSOLE)


def test_a_driver_that_failed_or_was_killed_does_not_hold_the_folder(
    out: Path, target: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(out / ".lock")], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    holder.stdout.readline()
    stop_before_ray(monkeypatch, SweepError("reached"))
    with pytest.raises(UsageError):
        run(out, console=CONSOLE)
    holder.kill()
    holder.wait()
    for _ in range(2):
        with pytest.raises(SweepError, match="reached"):
            run(out, console=CONSOLE)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_a_signal_before_the_trials_begin_interrupts_and_gives_the_handlers_back(
    out: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}

    def prepare(spec: TrialSpec, *, console: Console) -> Target:
        os.kill(os.getpid(), number)
        time.sleep(5)
        raise AssertionError("the signal was not heard")

    monkeypatch.setattr("sweeper.target_maker.prepare_with_progress", prepare)
    with pytest.raises(Interrupted):
        run(out, console=CONSOLE)
    assert {each: signal.getsignal(each) for each in before} == before


@contextmanager
def slow_cluster(*arguments: object, **given: object) -> Iterator[int]:
    """Ray, told to stop while it starts, which would crash the real one; like that it takes SIGTERM for itself."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)
    STARTED.append("whole")
    try:
        yield 2
    finally:
        STARTED.append("left")


STARTED: list[str] = []


def test_a_signal_while_ray_starts_takes_effect_when_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweeper.cluster.ray_cluster", slow_cluster)
    monkeypatch.setattr("sweeper.interruption._interrupted", threading.Event())
    STARTED.clear()
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    ours = before | {signal.SIGTERM: lambda number, frame: None}
    signal.signal(signal.SIGTERM, ours[signal.SIGTERM])
    try:
        with pytest.raises(KeyboardInterrupt), cluster_of(SETTINGS) as cluster:
            cluster.slots(sharing=())
        assert STARTED == ["whole", "left"]
        assert {each: signal.getsignal(each) for each in ours} == ours
    finally:
        signal.signal(signal.SIGTERM, before[signal.SIGTERM])


def test_a_second_signal_ends_even_the_start_of_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted = threading.Event()
    interrupted.set()
    monkeypatch.setattr("sweeper.cluster.ray_cluster", slow_cluster)
    monkeypatch.setattr("sweeper.interruption._interrupted", interrupted)
    STARTED.clear()
    with pytest.raises(KeyboardInterrupt), cluster_of(SETTINGS) as cluster:
        cluster.slots(sharing=())
    assert STARTED == []


# Placement ----------------------------------------------------------------------------------------------------------


def test_a_cluster_is_asked_before_the_target_is_made(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare(spec: TrialSpec, *, console: Console) -> Target:
        raise AssertionError("the target was made first")

    monkeypatch.setattr("sweeper.target_maker.prepare_with_progress", prepare)
    begun = out.parent / "begun"
    begin(replace(SETTINGS, address="127.0.0.1:9"), begun)
    with pytest.raises(PlacementError, match=r"127\.0\.0\.1:9"):
        run(begun, console=CONSOLE)


def test_a_resumed_sweep_asks_for_its_cluster_only_when_trials_are_left(
    out: Path, target: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster of a sweep that is done may be gone; its report can still be written anew."""
    begun = out.parent / "begun"
    begin(replace(SETTINGS, address="127.0.0.1:9"), begun)
    describe(begun, read_settings(begun), Origin("0", "2026-01-01"), target=TARGET)
    stop_before_ray(monkeypatch, SweepError("went on"))
    with pytest.raises(SweepError, match="went on"):
        run(begun, console=CONSOLE)


def test_a_sweep_that_could_not_begin_leaves_its_folder_free_and_one_with_trials_stays(out: Path) -> None:
    (out / "trials.csv").write_text("trial_id\n00000\n")
    discard(out)
    assert (out / "sweep.json").is_file()
    (out / "trials.csv").write_text("trial_id\n")
    discard(out)
    assert not out.exists()


def test_tune_saves_no_state_of_a_trial_that_has_ended(out: Path) -> None:
    """Where nobody says, it does; the weights and the optimizer's state of a large model are gigabytes."""
    found = run_config(bare_session(out), SETTINGS, out)
    assert found.checkpoint_config.checkpoint_at_end is False
    assert found.checkpoint_config.num_to_keep == 1


@pytest.mark.parametrize("error", [None, Interrupted()])
def test_where_the_process_is_ended_the_desk_tells_before_how(error: Interrupted | None) -> None:
    """Ray's head is gone, and nothing that would tell it afterwards runs any more."""
    told: list[object] = []

    def conclusion() -> Any:
        if error:
            raise error
        return "summary"

    def end_process(result: Any) -> None:
        with suppress(Interrupted):
            told.append(result())
        told.append("ended")

    _ended(end_process, SimpleNamespace(close=told.append), conclusion)  # type: ignore[arg-type]
    assert told == ([error, "ended"] if error else [None, "summary", "ended"])
