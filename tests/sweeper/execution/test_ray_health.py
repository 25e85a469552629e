"""The loss of Ray's head is detected, but not if the head responds or restarts in time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
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


def lose_head(calls: Recorder, head: socket.socket, *, fails: bool, restart: Callable[[], None] | None = None) -> None:
    """Lose the head. Then wait for the head, or fail like a Ray call before the loss is detected.

    ``restart`` starts the restart of a cluster's head.
    """
    is_cluster = restart is not None
    with head_watched(calls.on_loss, end_process=calls.end_process, is_cluster=is_cluster) as head_answers:
        head_answers()
        head.close()
        if restart is not None:
            restart()
        if fails:
            raise OSError("Broken pipe")
        head_answers()


def error_if(fails: bool) -> AbstractContextManager[object]:
    return pytest.raises(OSError, match="Broken pipe") if fails else nullcontext()


@pytest.mark.parametrize("fails", [False, True], ids=["a wait", "an error"])
def test_a_wait_for_a_lost_head_or_an_error_ends_after_the_loss_is_reported(head: socket.socket, fails: bool) -> None:
    calls = Recorder()
    with error_if(fails):
        lose_head(calls, head, fails=fails)
    assert calls.order[-1] == "process ends"


@pytest.mark.parametrize("fails", [False, True], ids=["a wait", "an error"])
def test_a_wait_for_a_restarting_head_or_an_error_ends_after_the_restart(head: socket.socket, fails: bool) -> None:
    calls, address, servers = Recorder(), head.getsockname(), []
    timer = threading.Timer(0.3, lambda: servers.append(socket.create_server(address)))
    with error_if(fails):
        lose_head(calls, head, fails=fails, restart=timer.start)
    assert (len(servers), calls.order) == (1, [])
    servers[0].close()


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
