"""Ray is started once and shut down once, and its nodes get the runtime environment and the shared settings."""

from __future__ import annotations

import json
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray import cloudpickle, tune

from sweeper.execution import ray_payload, shutdown
from sweeper.execution.cluster import Cluster, project_folders, runtime_env
from sweeper.execution.ray_payload import task_with, trainable_with
from sweeper.execution.shutdown import Interrupted, interruptible
from sweeper.store.version import PACKAGES
from tests.sweeper.conftest import SETTINGS, bare_sweep


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace Ray. The list records the start, and the thread of the shutdown."""
    happened: list[str] = []

    @contextmanager
    def stand_in(address: str | None, *, resources: object, ship: bool, python: str | None) -> Iterator[int]:
        happened.append("started" if python is None else f"started with {python}")
        yield 3
        happened.append("main" if threading.current_thread() is threading.main_thread() else "another thread")

    monkeypatch.setattr("sweeper.execution.cluster.ray_cluster", stand_in)
    monkeypatch.setattr("sweeper.execution.cluster.require_shared", lambda shared: None)
    monkeypatch.setattr("sweeper.execution.cluster.is_possible", lambda: False)
    monkeypatch.setattr("sweeper.execution.cluster._import_in_parallel", nullcontext)
    return happened


def test_ray_starts_once_when_slots_are_requested_and_is_shut_down_once(events: list[str]) -> None:
    with closing(Cluster(SETTINGS)) as cluster:
        assert events == []
        assert [cluster.slots(shared_folders=()), cluster.slots(shared_folders=())] == [3, 3]
        assert events == ["started"]
    assert events == ["started", "main"]
    events.clear()
    with closing(Cluster(SETTINGS)) as cluster:
        cluster.slots(shared_folders=())
        cluster.sweep_ended()
        cluster.sweep_ended()
    assert events == ["started", "another thread"], "close waits for the thread"
    events.clear()
    with closing(Cluster(SETTINGS)) as cluster:
        cluster.sweep_ended()
    assert events == [], "Ray was never started"


def test_a_shared_cluster_runs_until_it_is_closed(events: list[str]) -> None:
    with closing(Cluster(SETTINGS, is_shared=True)) as cluster:
        for _ in range(2):
            cluster.slots(shared_folders=())
            cluster.sweep_ended()
        assert events == ["started"]
    assert events == ["started", "another thread"]


@pytest.mark.parametrize("is_second", [False, True])
def test_a_first_signal_while_ray_starts_waits_for_the_start_and_a_second_does_not(
    events: list[str], monkeypatch: pytest.MonkeyPatch, is_second: bool
) -> None:
    """Ray's own handler of SIGTERM would end the process at once, with exit code 15 and without a message."""
    from ray._private import utils

    replace_handler = utils.set_sigterm_handler

    @contextmanager
    def starting(address: str | None, **given: object) -> Iterator[int]:
        utils.set_sigterm_handler(lambda number, frame: pytest.fail("Ray's handler ran"))
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
        events.append("started")
        yield 3
        events.append("left")

    def start() -> None:
        handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        if is_second:
            shutdown._state.interrupted.set()
        try:
            with closing(Cluster(SETTINGS)) as cluster:
                cluster.slots(shared_folders=())
        finally:
            assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers

    monkeypatch.setattr("sweeper.execution.cluster.ray_cluster", starting)
    lines: list[str] = []
    with pytest.raises(Interrupted), interruptible("", say=lines.append):
        start()
    assert events == ([] if is_second else ["started", "left"])
    assert ["SIGTERM" in line for line in lines] == [True]
    assert utils.set_sigterm_handler is replace_handler


@pytest.mark.parametrize(
    ("changes", "forks"),
    [
        ({"cpus_per_trial": 2.0}, "forks of 2"),
        ({"cpus_per_trial": 0.5}, "forks of 1"),
        ({"gpus_per_trial": 0.25}, None),
        ({"address": "auto"}, None),
    ],
)
def test_workers_on_this_machine_without_gpus_are_forked(
    events: list[str], monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], forks: str | None
) -> None:
    @contextmanager
    def stand_in(*, threads: int) -> Iterator[str]:
        yield f"forks of {threads}"
        events.append("no more forks")

    monkeypatch.setattr("sweeper.execution.cluster.fork_server", stand_in)
    monkeypatch.setattr("sweeper.execution.cluster.is_possible", lambda: True)
    with closing(Cluster(replace(SETTINGS, **changes))) as cluster:
        cluster.slots(shared_folders=())
    # Ray is shut down first, because its workers are forks.
    assert events == (["started", "main"] if forks is None else [f"started with {forks}", "main", "no more forks"])


def test_on_a_cluster_more_trials_than_fit_are_requested_because_nodes_may_join(tmp_path: Path) -> None:
    for address, expected in ((None, [3, 3, 2]), ("auto", [3, 8, 2])):
        settings = [replace(SETTINGS, address=address, max_concurrent=asked) for asked in (None, 8, 2)]
        assert [bare_sweep(tmp_path, item).max_concurrent(3) for item in settings] == expected


@pytest.mark.parametrize(
    ("of_job", "added"),
    [
        ({"runtime_env": {"py_modules": ["gcs://mine.zip"]}}, set()),
        ({"runtime_env": {"working_dir": "gcs://mine.zip", "excludes": ["data"]}}, {"py_modules"}),
        ({"runtime_env": None}, {"py_modules", "excludes"}),
    ],
)
def test_nodes_get_packages_and_plug_ins_but_the_runtime_environment_of_a_submitted_job_is_not_changed(
    of_job: dict[str, object], added: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray rejects a driver that sets an entry of the job's runtime environment again."""
    monkeypatch.delenv("SWEEPER_PLUGINS", raising=False)
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", json.dumps(of_job))
    assert runtime_env(ship=True).keys() == added
    assert [Path(path).name for path in project_folders()] == [*PACKAGES]
    monkeypatch.setenv("SWEEPER_PLUGINS", "[]")
    assert runtime_env(ship=False) == {"env_vars": {"SWEEPER_PLUGINS": "[]"}}


def together(*, first: object, second: object) -> tuple[object, object]:
    return first, second


def test_only_settings_too_large_for_a_pickle_go_through_the_object_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray ends a process that calls ``ray.put`` if the node of the object store is lost."""
    put: list[object] = []
    sent: list[tuple[object, object]] = []

    def remote(**options: object) -> Callable[..., Any]:
        return lambda function: SimpleNamespace(
            remote=lambda **given: sent.append((options, pickle.loads(cloudpickle.dumps(function))(**given)))
        )

    monkeypatch.setattr(ray, "put", lambda value: put.append(value) or value)
    monkeypatch.setattr(ray, "remote", remote)
    monkeypatch.setattr(tune, "with_parameters", lambda trainable, **settings: put.append(settings))
    task_with(together, {"first": 1}, num_cpus=2.0)(second=2)
    assert (sent.pop(), put) == (({"num_cpus": 2.0}, (1, 2)), [])
    pixels = bytes(ray_payload.LARGEST_CLASS)
    task_with(together, {"first": pixels})(second=2)
    trainable_with(target=pixels, cpus=1.0)
    assert (sent.pop(), put) == (({}, (pixels, 2)), [pixels, {"target": pixels, "cpus": 1.0}])
