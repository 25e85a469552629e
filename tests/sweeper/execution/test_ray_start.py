"""Ray is started a second time if its start fails, and Ray waits longer for its processes on a busy machine."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
import ray
from ray._private import services

from sweeper.execution import ray_start
from sweeper.execution.placement import PlacementError


def start_with(monkeypatch: pytest.MonkeyPatch, init: Callable[[], object]) -> list[str]:
    """Start Ray with a stand-in for ``ray.init``. Return the addresses with which ``ray.init`` was called."""
    addresses: list[str] = []

    def stand_in(address: str, **options: object) -> None:
        addresses.append(address)
        init()

    monkeypatch.setattr(ray, "init", stand_in)
    monkeypatch.setattr(ray, "shutdown", lambda: addresses.append("shutdown"))
    ray_start.start_ray()
    return addresses


def test_a_second_attempt_follows_a_failed_start(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures = [Exception("The current node timed out during startup. This could happen ...")]

    def init() -> None:
        if failures:
            raise failures.pop()

    assert start_with(monkeypatch, init) == ["local", "shutdown", "local"]
    assert "timed out during startup" in caplog.text
    assert "load average" in caplog.text


def test_after_two_failed_starts_the_message_has_the_reason_the_load_and_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def init() -> None:
        raise Exception("The current node timed out during startup.")

    with pytest.raises(PlacementError, match=r"in 2 attempts: .*timed out.*load average is .* CPUs.*wait until"):
        start_with(monkeypatch, init)


def test_a_long_temporary_folder_is_reported_at_once_with_rays_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    def init() -> None:
        raise OSError("AF_UNIX path length cannot exceed 107 bytes: /very/long")

    with pytest.raises(PlacementError, match="RAY_TMPDIR=/tmp"):
        start_with(monkeypatch, init)


@pytest.mark.parametrize("is_alive", [True, False])
def test_ray_waits_as_long_as_its_process_is_alive(monkeypatch: pytest.MonkeyPatch, is_alive: bool) -> None:
    answers = [RuntimeError("not registered yet")] * 3

    def get_node(gcs_address: str, node_id: str) -> str:
        if answers:
            raise answers.pop()
        return "node"

    monkeypatch.setattr(services, "get_node", get_node)
    monkeypatch.setattr(ray_start, "_is_starting", lambda: is_alive)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    nodes: list[str] = []
    if is_alive:
        start_with(monkeypatch, lambda: nodes.append(services.get_node("gcs", "id")))
        assert nodes == ["node"]
        assert services.get_node is get_node, "Ray's own function is back after the start"
    else:
        monkeypatch.setattr(ray_start, "_ATTEMPTS", 1)
        with pytest.raises(PlacementError, match="not registered yet"):
            start_with(monkeypatch, lambda: services.get_node("gcs", "id"))


def test_a_slow_start_and_its_end_are_reported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ray_start, "_NOTICE_SECONDS", 0.0)

    def init() -> None:
        while "still waiting" not in caplog.text:
            pass

    caplog.set_level(logging.WARNING)
    assert start_with(monkeypatch, init) == ["local"]
    assert "has started after" in caplog.messages[-1]
