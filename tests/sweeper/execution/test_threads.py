"""Torch uses the cores that other processes leave free; the user's OMP_NUM_THREADS has priority."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil
import pytest
import torch

from sweeper.execution import threads
from sweeper.execution.threads import free_threads, use_free_threads


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine with 8 logical and 4 physical cores, which this process may use, and without any load."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(8), raising=False)
    monkeypatch.setattr(psutil, "cpu_count", lambda logical=True: 8 if logical else 4)
    load(monkeypatch)
    return monkeypatch


def load(monkeypatch: pytest.MonkeyPatch, *, last_minute: float = 0.0, now: float = 0.0) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (last_minute, 0.0, 0.0))
    monkeypatch.setattr(threads, "_used_by_others", lambda: now)


@pytest.mark.parametrize(
    ("last_minute", "now", "expected"),
    [(0, 0, 4), (3.6, 4.0, 4), (5.0, 5.4, 3), (7.2, 8.0, 1), (30, 8, 1), (7.2, 0.1, 4), (0.2, 8.0, 4)],
    ids=["idle", "half", "three cores free", "full", "overloaded", "just ended", "just begun"],
)
def test_torch_gets_the_cores_that_are_free_now_or_were_free_during_the_last_minute(
    last_minute: float, now: float, expected: int, machine: pytest.MonkeyPatch
) -> None:
    load(machine, last_minute=last_minute, now=now)
    assert free_threads() == expected


def test_an_affinity_mask_limits_the_threads(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(os, "sched_getaffinity", lambda process: range(2), raising=False)
    assert free_threads() == 2


@pytest.mark.parametrize(("given", "expected"), [("3", 3), ("2,1", 2), ("0", 1), ("many", 1), ("", 1)])
def test_a_number_from_the_user_has_priority(given: str, expected: int, machine: pytest.MonkeyPatch) -> None:
    machine.setenv("OMP_NUM_THREADS", given)
    load(machine, last_minute=8, now=8)
    assert free_threads() == expected
    before = torch.get_num_threads()
    use_free_threads()
    assert torch.get_num_threads() == expected
    torch.set_num_threads(before)


def test_the_use_of_cpus_by_other_processes_does_not_include_children() -> None:
    code = "while True: pass"
    with subprocess.Popen([sys.executable, "-c", code]) as child:
        with_child = threads._own_seconds()
        while threads._own_seconds() < with_child + 0.1:
            pass
        child.kill()


@pytest.mark.parametrize(
    ("variables", "expected"),
    [({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE"), ({"OMP_NUM_THREADS": "2"}, None)],
)
def test_threads_sleep_while_they_wait_unless_the_user_has_set_an_option_of_openmp(
    variables: dict[str, str], expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sweeper.__main__ import _set_wait_policy

    for name in [name for name in os.environ if name.startswith(("OMP_", "GOMP_", "KMP_"))]:
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with monkeypatch.context() as environment:
        environment.setattr(os, "environ", dict(os.environ))
        _set_wait_policy()
        assert os.environ.get("OMP_WAIT_POLICY") == expected
