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

from sweeper.execution import ray_health, shutdown
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
    limits = {"_INTERVAL": 0.02, "_LOST_AFTER": 0.2, "_LOST_AFTER_ON_CLUSTER": 30.0, "_MAIN_THREAD_GRACE": 0.1}
    for name, seconds in limits.items():
        monkeypatch.setattr(ray_health, name, seconds)
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(gcs_address=address_of(server)))
        yield server


def address_of(server: socket.socket) -> str:
    return f"127.0.0.1:{server.getsockname()[1]}"


class Watched:
    """The calls that the watch of a head makes."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def watch(self, *, is_cluster: bool = False) -> AbstractContextManager[Callable[[], None]]:
        return head_watched(self.calls.append, end_process=lambda: self.calls.append("end"), is_cluster=is_cluster)


def test_a_head_that_is_lost_before_the_watch_begins_is_noticed_although_ray_does_not_return(
    head: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched, address = Watched(), address_of(head)

    def nodes() -> list[dict[str, str]]:
        wait_until(lambda: "end" in watched.calls)
        return []

    monkeypatch.setattr(ray, "nodes", nodes)
    monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(gcs_address=address))
    head.close()
    with watched.watch():
        assert watched.calls == [address, "end"]


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("fails", [False, True], ids=["a wait", "an error"])
def test_a_wait_for_the_head_or_an_error_of_ray_ends_when_the_head_is_lost_or_has_restarted(
    head: socket.socket, fails: bool, is_restarted: bool
) -> None:
    watched, address, servers = Watched(), head.getsockname(), list[socket.socket]()
    timer = threading.Timer(0.3, lambda: servers.append(socket.create_server(address)))

    def lose_head() -> None:
        with watched.watch(is_cluster=is_restarted) as wait_for_head:
            wait_for_head()
            head.close()
            if is_restarted:
                timer.start()
            if fails:  # before the loss is detected
                raise OSError("Broken pipe")
            wait_for_head()

    with pytest.raises(OSError, match="Broken pipe") if fails else nullcontext():
        lose_head()
    assert (len(servers), watched.calls[1:]) == ((1, []) if is_restarted else (0, ["end"]))
    for server in servers:
        server.close()


@pytest.mark.parametrize(("is_cluster", "lost"), [(False, None), (True, "starter")], ids=["alone", "a node ends"])
def test_no_loss_is_reported_while_the_head_responds(
    head: socket.socket, starter: socket.socket, is_cluster: bool, lost: str | None
) -> None:
    watched = Watched()
    with watched.watch(is_cluster=is_cluster):
        if lost:
            starter.close()
        time.sleep(0.6)
    assert watched.calls == []


def test_the_head_of_a_cluster_has_time_to_restart_unless_the_sweep_is_interrupted(head: socket.socket) -> None:
    watched = Watched()
    with watched.watch(is_cluster=True):
        head.close()
        time.sleep(0.8)
        assert watched.calls == []
        shutdown._state.interrupted.set()
        wait_until(lambda: watched.calls)


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

    messages = []
    for seconds, is_running in ((59.0, False), (600.0, True), (59.0, False), (2.0, False), (0.0, True)):
        now += seconds
        messages.append(check.message(is_running=is_running))
    assert [bool(message) for message in messages] == [False, False, False, True, False]
    assert_names(messages[3], "1 min 01 s", *facts)
