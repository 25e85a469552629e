"""The loss of Ray's head is detected, but not if the head responds or restarts in time."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import ray

from sweeper.execution import ray_health
from sweeper.execution.ray_health import StarvationCheck, head_watched
from sweeper.settings.resources import Resources
from tests.facts import assert_names
from tests.sweeper.conftest import wait_until


@pytest.fixture
def starter(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A socket that replaces the raylet, the process that starts Ray's workers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr(ray, "nodes", lambda: [{"NodeManagerAddress": "127.0.0.1", "NodeManagerPort": port}])
        yield server


@pytest.fixture
def head(monkeypatch: pytest.MonkeyPatch, starter: socket.socket) -> Iterator[socket.socket]:
    """A socket that replaces Ray's head. It accepts connections until it is closed."""
    for name, seconds in (
        ("_INTERVAL", 0.02),
        ("_LOST_AFTER", 0.2),
        ("_LOST_AFTER_ON_CLUSTER", 30.0),
        ("_MAIN_THREAD_GRACE", 0.1),
    ):
        monkeypatch.setattr(ray_health, name, seconds)
    monkeypatch.setattr(ray_health, "is_interrupted", lambda: False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(gcs_address=address))
        yield server


class Recorder:
    def __init__(self) -> None:
        self.lost = threading.Event()
        self.order: list[str] = []

    def on_loss(self, address: str) -> None:
        self.order.append(f"lost {address}")
        self.lost.set()

    def end_process(self) -> None:
        self.order.append("process ends")


@pytest.mark.parametrize("gone", ["head", "starter"])
def test_a_loss_is_reported_and_then_the_process_ends_even_if_the_block_is_still_running(
    head: socket.socket, starter: socket.socket, gone: str
) -> None:
    process = {"head": head, "starter": starter}[gone]
    calls, address = Recorder(), f"127.0.0.1:{process.getsockname()[1]}"
    with head_watched(calls.on_loss, end_process=calls.end_process, is_cluster=False):
        process.close()
        assert calls.lost.wait(120)
        wait_until(lambda: "process ends" in calls.order)  # although the block has not ended
    assert calls.order[:2] == [f"lost {address}", "process ends"]


def failing(calls: Recorder, head: socket.socket, *, is_cluster: bool) -> None:
    """Raise an error like a Ray call that fails before the loss is detected."""
    with head_watched(calls.on_loss, end_process=calls.end_process, is_cluster=is_cluster):
        head.close()
        raise OSError("Broken pipe")


def test_a_call_that_needs_a_lost_head_waits_until_the_loss_is_reported(head: socket.socket) -> None:
    calls = Recorder()
    with head_watched(calls.on_loss, end_process=calls.end_process, is_cluster=False) as head_answers:
        head.close()
        head_answers()
        assert calls.order[-1] == "process ends"


def test_an_error_of_a_ray_call_is_raised_after_the_loss_is_reported(head: socket.socket) -> None:
    calls = Recorder()
    with pytest.raises(OSError, match="Broken pipe"):
        failing(calls, head, is_cluster=False)
    assert calls.order[-1] == "process ends"


@contextlib.contextmanager
def back_in(seconds: float, address: tuple[str, int]) -> Iterator[None]:
    """Restart the head after some seconds."""
    servers: list[socket.socket] = []
    timer = threading.Timer(seconds, lambda: servers.append(socket.create_server(address)))
    timer.start()
    yield
    timer.join()
    servers[0].close()


def test_an_error_while_the_head_of_a_cluster_restarts_is_raised_when_it_is_back(head: socket.socket) -> None:
    calls, begun = Recorder(), time.monotonic()
    with back_in(0.3, head.getsockname()), pytest.raises(OSError, match="Broken pipe"):
        failing(calls, head, is_cluster=True)
    assert time.monotonic() - begun >= 0.3
    assert calls.order == []


def test_a_call_that_needs_the_head_waits_until_the_head_has_restarted(head: socket.socket) -> None:
    calls, begun = Recorder(), time.monotonic()
    with head_watched(calls.on_loss, end_process=calls.end_process, is_cluster=True) as head_answers:
        head_answers()
        with back_in(0.3, head.getsockname()):
            head.close()
            head_answers()
            assert time.monotonic() - begun >= 0.3
    assert calls.order == []


@pytest.mark.parametrize(("is_cluster", "lost"), [(False, None), (True, "starter")], ids=["alone", "a node ends"])
def test_no_loss_is_reported_while_the_head_responds(
    head: socket.socket, starter: socket.socket, is_cluster: bool, lost: str | None
) -> None:
    calls = Recorder()
    with head_watched(calls.on_loss, end_process=calls.end_process, is_cluster=is_cluster):
        if lost:
            starter.close()
        time.sleep(0.6)
    assert calls.order == []


def test_the_head_of_a_cluster_has_time_to_restart_unless_the_sweep_is_interrupted(
    head: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Recorder()
    with head_watched(calls.on_loss, end_process=calls.end_process, is_cluster=True):
        head.close()
        assert not calls.lost.wait(0.8)
        monkeypatch.setattr(ray_health, "is_interrupted", lambda: True)
        assert calls.lost.wait(120)


# Starvation -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("is_cluster", "facts"), [(False, ["/logs"]), (True, ["3 of 16 CPUs", "0 of 4 GPUs", "/logs"])]
)
def test_a_minute_without_a_running_trial_is_reported_until_one_runs(
    monkeypatch: pytest.MonkeyPatch, is_cluster: bool, facts: list[str]
) -> None:
    now = 100.0
    monkeypatch.setattr(ray_health.time, "monotonic", lambda: now)
    monkeypatch.setattr(ray_health, "ray_logs", lambda: Path("/logs"))
    monkeypatch.setattr(ray, "available_resources", lambda: {"CPU": 3.0, "memory": 1e9})
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 16.0, "GPU": 4.0})
    check = StarvationCheck(Resources(2.0, 0.5), is_cluster=is_cluster)

    def message_after(seconds: float, *, is_running: bool = False) -> str:
        nonlocal now
        now += seconds
        return check.message(is_running=is_running)

    assert message_after(59.0) == ""
    assert message_after(600.0, is_running=True) == ""
    assert message_after(59.0) == ""
    assert_names(message_after(2.0), "1 min 01 s", *facts)
    assert message_after(0.0, is_running=True) == ""
