"""Files, folders and logs are whole on disk even if their writer is killed, and a folder has one holder at a time."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces.common import durable
from search_spaces.common.durable import (
    Throttle,
    append,
    complete_lines,
    exclusive,
    remove_leftovers,
    staged,
    write_atomically,
    write_json,
)
from tests.conftest import disk_full_after
from tests.search_spaces.conftest import names

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(durable.__file__).parents[1])}
OLD, NEW = b"old\n" * 100, b"new\n" * 10_000
WITHOUT_NEWLINE = st.binary(max_size=20).map(lambda line: line.replace(b"\n", b""))
LINES = st.lists(WITHOUT_NEWLINE.map(lambda line: line + b"\n"), max_size=8).map(b"".join)
ENDLESS = """
from itertools import count
from pathlib import Path
from search_spaces.common.durable import append, staged, write_atomically
print("begun")
for number in count():
    write_atomically(Path("file"), f"{number % 10}" * 100_000)
    with staged(Path("folder")) as staging:
        staging.mkdir()
        for name in range(20):
            (staging / str(name)).write_text(str(number))
    append(Path("log"), f"{number:06d}{'x' * 50_000}\\n".encode())
"""


@pytest.mark.parametrize("attempt", range(3))
def test_a_killed_writer_leaves_whole_files_whole_folders_and_whole_lines(tmp_path: Path, attempt: int) -> None:
    command = [sys.executable, "-u", "-c", ENDLESS]
    with subprocess.Popen(command, cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(random.Random(attempt).uniform(0.1, 0.4))
        process.send_signal(signal.SIGKILL)
    for name in ("file", "folder"):
        remove_leftovers(tmp_path / name)
    append(tmp_path / "log", b"after\n")
    assert {"file", "log"} <= set(names(tmp_path)) <= {"file", "folder", "log"}
    text = (tmp_path / "file").read_text()
    assert (len(text), len(set(text))) == (100_000, 1)
    if (tmp_path / "folder").exists():
        files = list((tmp_path / "folder").iterdir())
        assert (len(files), len({path.read_text() for path in files})) == (20, 1)
    *lines, last = (tmp_path / "log").read_bytes().splitlines()
    assert [(int(line[:6]), len(line)) for line in lines] == [(number, 50_006) for number in range(len(lines))]
    assert last == b"after"


@pytest.mark.parametrize("fits", [0, 7])
def test_a_full_disk_leaves_the_old_file_and_the_old_lines(tmp_path: Path, fits: int) -> None:
    write_atomically(tmp_path / "file", OLD)
    with disk_full_after(fits), pytest.raises(OSError, match="File too large"):
        write_atomically(tmp_path / "file", NEW)
    append(tmp_path / "log", b"kept\n", header=b"header\n")
    with disk_full_after(len(b"header\nkept\n") + fits), pytest.raises(OSError, match="File too large"):
        append(tmp_path / "log", NEW)
    append(tmp_path / "log", b"after\n")
    assert (tmp_path / "file").read_bytes() == OLD
    assert (tmp_path / "log").read_bytes() == b"header\nkept\nafter\n"
    assert names(tmp_path) == ["file", "log"]


def test_written_files_and_folders_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "file", "x")
        with staged(tmp_path / "once", keep_existing=True) as staging:
            staging.write_text("x")
        with staged(tmp_path / "folder") as staging:
            staging.mkdir()
        append(tmp_path / "log", b"x\n")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"file": 0o640, "once": 0o640, "folder": 0o750, "log": 0o640}


def test_json_has_null_for_numbers_that_are_not_finite(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "a.json"
    write_json(path, {"x": math.nan, "y": [math.inf, 1.5], "z": {"w": -math.inf}, 3: (1, None)}, indent=None)
    text = path.read_text()
    assert text == '{"x": null, "y": [null, 1.5], "z": {"w": null}, "3": [1, null]}\n'
    with pytest.raises(TypeError):
        write_json(path, {"new": object()})
    assert path.read_text() == text
    assert names(path.parent) == ["a.json"]


def fill(folder: Path, text: str) -> None:
    folder.mkdir()
    (folder / "content").write_text(text)


def test_a_writer_that_fails_or_writes_nothing_changes_nothing(tmp_path: Path) -> None:
    write_atomically(tmp_path / "file", "old")
    fill(tmp_path / "folder", "old")
    for name, write in (("file", Path.write_text), ("folder", fill)):
        with contextlib.suppress(RuntimeError), staged(tmp_path / name) as staging:
            write(staging, "half")
            raise RuntimeError("the disk refuses, says a library")
        with staged(tmp_path / name):
            pass
    with pytest.raises(OSError):  # noqa: PT011
        write_atomically(tmp_path / "folder", "new")  # a file never replaces a folder
    assert (tmp_path / "file").read_text() == (tmp_path / "folder" / "content").read_text() == "old"
    assert names(tmp_path) == ["file", "folder"]


@pytest.mark.parametrize("links", [True, False], ids=["with links", "a file system without links"])
def test_with_keep_existing_nothing_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    for text in ("first", "second"):
        with staged(tmp_path / "file", keep_existing=True) as staging:
            staging.write_text(text)
        with staged(tmp_path / "folder", keep_existing=True) as staging:
            fill(staging, text)
    assert (tmp_path / "file").read_text() == (tmp_path / "folder" / "content").read_text() == "first"
    assert names(tmp_path) == ["file", "folder"]


def test_only_leftovers_of_the_same_name_and_old_ones_are_removed(tmp_path: Path) -> None:
    kept = [".file.0123456g", ".file.01234567.csv", ".file[1].01234567", "file.01234567", ".file.recent"]
    for name in [*kept, ".file.01234567", ".file.89abcdef"]:
        (tmp_path / name).write_text("")
    fill(tmp_path / ".file.aaaaaaaa", "a folder")
    for name in (".file.01234567", ".file.aaaaaaaa"):
        os.utime(tmp_path / name, (0, 0))
    write_atomically(tmp_path / "file", "x")
    assert names(tmp_path) == sorted([*kept, "file", ".file.89abcdef"])
    remove_leftovers(tmp_path / "file")
    assert names(tmp_path) == sorted([*kept, "file"])
    remove_leftovers(tmp_path / "file[1]")
    assert ".file[1].01234567" not in names(tmp_path)


@patch.object(durable, "_BLOCK", 7)  # so that a line is longer than a block
@given(whole=LINES, torn=WITHOUT_NEWLINE, after=LINES.filter(bool))
def test_a_torn_last_line_is_cut_before_lines_are_added(
    tmp_path_factory: pytest.TempPathFactory, whole: bytes, torn: bytes, after: bytes
) -> None:
    path = tmp_path_factory.mktemp("lines") / "log"
    assert complete_lines(whole + torn) == whole
    path.write_bytes(whole + torn)
    append(path, after, header=b"header\n")
    assert path.read_bytes() == (whole or b"header\n") + after


class InUseError(Exception):
    """Raised for a held folder."""


def is_refused(folder: Path) -> bool:
    try:
        with exclusive(folder, InUseError()):
            return False
    except InUseError:
        return True


def test_a_folder_is_held_by_one_process_and_then_free(tmp_path: Path) -> None:
    with exclusive(tmp_path, InUseError()):
        assert is_refused(tmp_path)
    with pytest.raises(ZeroDivisionError), exclusive(tmp_path, InUseError()):
        raise ZeroDivisionError
    assert not is_refused(tmp_path)
    with exclusive(tmp_path, InUseError()):
        shutil.rmtree(tmp_path)
    assert not tmp_path.exists(), "leaving does not bring it back"


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
