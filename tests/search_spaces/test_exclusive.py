"""A folder is held by one process at a time, and states are not saved too often."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest

from search_spaces import durable
from search_spaces.durable import Throttle, exclusive, wait_for_lock
from tests.search_spaces.conftest import names


class InUseError(Exception):
    """Raised for a held folder."""


def is_refused(folder: Path) -> bool:
    try:
        with exclusive(folder, InUseError()):
            return False
    except InUseError:
        return True


def test_a_folder_is_held_by_one_process_and_then_free_without_a_trace(tmp_path: Path) -> None:
    with exclusive(tmp_path, InUseError()):
        assert is_refused(tmp_path)
    with pytest.raises(ZeroDivisionError), exclusive(tmp_path, InUseError()):
        raise ZeroDivisionError
    assert names(tmp_path) == []
    assert not is_refused(tmp_path)


def test_a_killed_holder_lets_go(tmp_path: Path) -> None:
    script = """
import time
from pathlib import Path
from search_spaces.durable import exclusive
with exclusive(Path(), Exception()):
    Path("held").touch()
    time.sleep(60)
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(durable.__file__).parents[1])}
    with subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path, env=environment) as process:
        while not (tmp_path / "held").exists():
            time.sleep(0.01)
        assert is_refused(tmp_path)
        process.kill()
    assert not is_refused(tmp_path)


def test_a_lock_its_holder_took_away_holds_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the open file is locked, the last holder may delete it and the next holder may create a new one."""
    flock, calls = durable.fcntl.flock, []

    def late(file: object, operation: int) -> None:
        flock(file, operation)  # type: ignore[arg-type]
        if not calls:
            (tmp_path / ".lock").unlink()
        calls.append(operation)

    monkeypatch.setattr(durable.fcntl, "flock", late)
    with exclusive(tmp_path, InUseError()):
        assert len(calls) == 2
        assert is_refused(tmp_path)


def test_a_folder_may_go_while_it_is_held(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with exclusive(folder, InUseError()):
        shutil.rmtree(folder)
    assert not folder.exists(), "leaving does not bring it back"


def test_the_second_one_waits_and_is_notified_once(tmp_path: Path) -> None:
    lock, order = tmp_path / "new" / "lock", []

    def second() -> None:
        with wait_for_lock(lock, lambda: order.append("waits")):
            order.append("second")

    thread = threading.Thread(target=second)
    with wait_for_lock(lock, lambda: order.append("nobody")):
        thread.start()
        while "waits" not in order:
            time.sleep(0.01)
        order.append("first")
    thread.join(timeout=120)
    assert order == ["waits", "first", "second"]


def test_saving_takes_its_share_of_the_time_and_keeps_its_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    throttle = Throttle(share=0.02, pause=15.0)
    saved = []
    for _ in range(2000):
        now += 1.0
        if throttle.is_due():
            with throttle.saving():
                now += 0.1 if now < 1000 else 4.0
            saved.append(now)
    pauses = [later - earlier for earlier, later in pairwise(saved)]
    assert min(pauses) >= 15.0
    assert max(pauses) == pytest.approx(4.0 / 0.02, abs=5.0)


def test_without_a_pause_the_first_save_is_due_at_once_and_a_failed_save_counts() -> None:
    assert Throttle(share=0.05).is_due()
    throttle = Throttle(share=1.0, pause=60.0, _saved_at=-math.inf)
    assert throttle.is_due()
    with pytest.raises(OSError, match="full"), throttle.saving():
        raise OSError("full")
    assert not throttle.is_due()
