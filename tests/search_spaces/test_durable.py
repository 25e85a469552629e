"""What is on disk is whole, whatever happens to the process that writes it."""

from __future__ import annotations

import errno
import json
import math
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces import durable
from search_spaces.durable import (
    Throttle,
    append,
    cut_torn_line,
    exclusive,
    remove_leftovers,
    staged,
    whole_lines,
    write_json,
    write_whole,
)

OLD, NEW = b"old\n" * 100, b"new\n" * 10_000
LINES = st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"") + b"\n"), max_size=8)


@contextmanager
def disk_full_after(size: int) -> Iterator[None]:
    """The system refuses to let a file of this process grow beyond ``size`` bytes, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def kill_in_the_middle(script: str, folder: Path, *, after: float) -> None:
    """Run ``script`` in ``folder`` until it says it has begun, and ``after`` seconds more; then ``kill -9``."""
    environment = {**os.environ, "PYTHONPATH": str(Path(durable.__file__).parents[1])}
    command = [sys.executable, "-u", "-c", f"import search_spaces.durable\nprint('begun')\n{script}"]
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(after)
        process.send_signal(signal.SIGKILL)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# Files ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", ["text, ü\n", b"\x00\xff"])
@pytest.mark.parametrize("sync", [False, True])
def test_a_file_is_replaced_and_folders_above_it_are_made(tmp_path: Path, content: str | bytes, sync: bool) -> None:
    path = tmp_path / "a" / "b" / "file.bin"
    for _ in range(2):
        write_whole(path, content, sync=sync)
    assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert names(path.parent) == ["file.bin"]


@pytest.mark.parametrize("attempt", range(5))
def test_a_writer_killed_in_the_middle_leaves_the_old_content_or_the_new(tmp_path: Path, attempt: int) -> None:
    script = f"""
from pathlib import Path
from search_spaces.durable import write_whole
while True:
    write_whole(Path("file"), {OLD!r})
    write_whole(Path("file"), {NEW!r})
"""
    write_whole(tmp_path / "file", OLD)
    kill_in_the_middle(script, tmp_path, after=random.Random(attempt).uniform(0.1, 0.4))
    assert (tmp_path / "file").read_bytes() in (OLD, NEW)
    remove_leftovers(tmp_path / "file")
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("fits", [0, 1, 1000])
def test_a_full_disk_leaves_the_old_file_and_no_other(tmp_path: Path, fits: int) -> None:
    path = tmp_path / "file"
    write_whole(path, OLD)
    with disk_full_after(fits), pytest.raises(OSError, match="File too large"):
        write_whole(path, NEW)
    assert path.read_bytes() == OLD
    assert names(tmp_path) == ["file"]


def test_what_is_written_has_the_mode_every_new_file_has(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "file", "x")
        with staged(tmp_path / "once", keep_existing=True) as staging:
            staging.write_text("x")
        with staged(tmp_path / "folder") as staging:
            staging.mkdir()
        append(tmp_path / "log", b"x\n")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"file": 0o640, "once": 0o640, "folder": 0o750, "log": 0o640}


def test_json_has_null_for_what_is_not_finite(tmp_path: Path) -> None:
    content = {"x": math.nan, "y": [math.inf, 1.5], "z": {"w": -math.inf}, 3: (1, None)}
    for indent in (2, None):
        write_json(tmp_path / "a.json", content, indent=indent)
        text = (tmp_path / "a.json").read_text()
        assert json.loads(text) == {"x": None, "y": [None, 1.5], "z": {"w": None}, "3": [1, None]}
        assert text.endswith("}\n")
        assert (text.count("\n") > 1) == (indent is not None)


def test_what_is_no_json_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"old": 1})
    with pytest.raises(TypeError):
        write_json(tmp_path / "a.json", {"new": object()})
    assert json.loads((tmp_path / "a.json").read_text()) == {"old": 1}
    assert names(tmp_path) == ["a.json"]


# Whatever writes to a path, and folders ------------------------------------------------------------------------------


def fill(folder: Path, text: str, *, files: int = 5) -> None:
    (folder / "deep").mkdir(parents=True)
    for number in range(files):
        (folder / "deep" / f"{number}").write_text(text)


def contents(folder: Path) -> set[str]:
    return {path.read_text() for path in (folder / "deep").iterdir()}


@pytest.mark.parametrize("there", [False, True], ids=["new", "replaced"])
def test_a_folder_appears_whole(tmp_path: Path, there: bool) -> None:
    path = tmp_path / "folder"
    if there:
        fill(path, "old", files=9)
    with staged(path) as staging:
        fill(staging, "new")
        assert path.exists() == there
    assert len(list((path / "deep").iterdir())) == 5
    assert contents(path) == {"new"}
    assert names(tmp_path) == ["folder"]


@pytest.mark.parametrize("attempt", range(3))
def test_a_folder_whose_writer_was_killed_is_whole_or_not_there(tmp_path: Path, attempt: int) -> None:
    script = """
from pathlib import Path
from search_spaces.durable import staged
number = 0
while True:
    number += 1
    with staged(Path("folder")) as staging:
        staging.mkdir()
        for name in range(20):
            (staging / str(name)).write_text(str(number))
"""
    kill_in_the_middle(script, tmp_path, after=random.Random(attempt).uniform(0.1, 0.4))
    if (tmp_path / "folder").exists():
        files = list((tmp_path / "folder").iterdir())
        assert len(files) == 20
        assert len({path.read_text() for path in files}) == 1
    remove_leftovers(tmp_path / "folder")
    assert set(names(tmp_path)) <= {"folder"}


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_writer_that_fails_changes_nothing(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "it"
    (lambda: fill(path, "old"), lambda: write_whole(path, "old"))[kind == "file"]()

    def write(staging: Path) -> None:
        if kind == "file":
            staging.write_text("ne")
        else:
            fill(staging, "ne")
        raise RuntimeError("the disk refuses, says a library")

    with pytest.raises(RuntimeError), staged(path) as staging:
        write(staging)
    assert (path.read_text() == "old") if kind == "file" else (contents(path) == {"old"})
    assert names(tmp_path) == ["it"]


def test_a_block_that_writes_nothing_changes_nothing(tmp_path: Path) -> None:
    write_whole(tmp_path / "file", "old")
    with staged(tmp_path / "file"):
        pass
    assert (tmp_path / "file").read_text() == "old"


def test_a_file_never_takes_the_place_of_a_folder(tmp_path: Path) -> None:
    fill(tmp_path / "it", "old")
    with pytest.raises(OSError):  # noqa: PT011
        write_whole(tmp_path / "it", "new")
    assert contents(tmp_path / "it") == {"old"}


@pytest.mark.parametrize("links", [True, False], ids=["with links", "a file system without links"])
def test_who_keeps_what_is_there_never_replaces_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    for text in ("first", "second"):
        with staged(tmp_path / "file", keep_existing=True) as staging:
            staging.write_text(text)
        with staged(tmp_path / "folder", keep_existing=True) as staging:
            fill(staging, text)
    assert (tmp_path / "file").read_text() == "first"
    assert contents(tmp_path / "folder") == {"first"}
    assert names(tmp_path) == ["file", "folder"]


def test_only_leftovers_of_the_same_name_and_old_ones_are_removed(tmp_path: Path) -> None:
    kept = [".file.0123456g", ".file.01234567.csv", ".file[1].01234567", "file.01234567", ".file.recent"]
    for name in [*kept, ".file.01234567", ".file.89abcdef"]:
        (tmp_path / name).write_text("")
    fill(tmp_path / ".file.aaaaaaaa", "a folder")
    for name in (".file.01234567", ".file.aaaaaaaa"):
        os.utime(tmp_path / name, (0, 0))
    write_whole(tmp_path / "file", "x")
    assert names(tmp_path) == sorted([*kept, "file", ".file.89abcdef"])
    remove_leftovers(tmp_path / "file")
    assert names(tmp_path) == sorted([*kept, "file"])
    (tmp_path / ".file[1].01234567").touch()
    remove_leftovers(tmp_path / "file[1]")
    assert ".file[1].01234567" not in names(tmp_path)


# Lines ---------------------------------------------------------------------------------------------------------------


@given(before=LINES, torn=st.binary(max_size=20), after=LINES.filter(bool))
def test_lines_are_added_to_whole_lines_only(
    tmp_path_factory: pytest.TempPathFactory, before: list[bytes], torn: bytes, after: list[bytes]
) -> None:
    path = tmp_path_factory.mktemp("lines") / "log"
    whole = b"".join(before) + whole_lines(torn)
    path.write_bytes(b"".join(before) + torn)
    append(path, b"".join(after), header=b"header\n")
    assert path.read_bytes() == (whole or b"header\n") + b"".join(after)


def test_a_file_torn_at_any_byte_goes_on_with_the_lines_before(tmp_path: Path) -> None:
    path = tmp_path / "log"
    whole = b"a,b\n1,2\n3,4\n"
    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        expected = whole_lines(whole[:length])
        assert whole[:length].startswith(expected)
        assert length - len(expected) < 4
        append(path, b"5,6\n", header=b"a,b\n")
        assert path.read_bytes() == (expected or b"a,b\n") + b"5,6\n"
        path.write_bytes(whole[:length])
        cut_torn_line(path)
        assert path.read_bytes() == expected


@pytest.mark.parametrize("length", [durable._BLOCK - 1, durable._BLOCK, durable._BLOCK + 1, 3 * durable._BLOCK])
def test_a_torn_line_may_be_longer_than_what_is_read_at_once(tmp_path: Path, length: int) -> None:
    for before in (b"", b"kept\n", b"x" * durable._BLOCK + b"\n"):
        (tmp_path / "log").write_bytes(before + b"y" * length)
        cut_torn_line(tmp_path / "log")
        assert (tmp_path / "log").read_bytes() == before


def test_there_need_be_no_file_to_cut(tmp_path: Path) -> None:
    cut_torn_line(tmp_path / "log")
    assert names(tmp_path) == []


@pytest.mark.parametrize("fits", [0, 1, 7, 40])
def test_lines_a_full_disk_refuses_leave_nothing_of_them(tmp_path: Path, fits: int) -> None:
    path = tmp_path / "log"
    append(path, b"kept\n", header=b"header\n")
    with disk_full_after(len(b"header\nkept\n") + fits), pytest.raises(OSError, match="File too large"):
        append(path, b"lost\n" * 1000)
    append(path, b"after\n")
    assert path.read_bytes() == b"header\nkept\nafter\n"


def test_lines_that_could_not_be_synced_leave_nothing_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(number: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    append(tmp_path / "log", b"kept\n")
    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space left"):
        append(tmp_path / "log", b"lost\n", sync=True)
    assert (tmp_path / "log").read_bytes() == b"kept\n"


def test_a_file_in_a_folder_that_is_gone_is_not_begun(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        append(tmp_path / "gone" / "log", b"x\n")
    assert names(tmp_path) == []


@pytest.mark.parametrize("attempt", range(3))
def test_lines_of_a_writer_killed_in_the_middle_are_whole_and_in_order(tmp_path: Path, attempt: int) -> None:
    script = """
from itertools import count
from pathlib import Path
from search_spaces.durable import append
for number in count():
    append(Path("log"), f"{number:06d}{'x' * 5000}\\n".encode())
"""
    kill_in_the_middle(script, tmp_path, after=random.Random(attempt).uniform(0.1, 0.4))
    append(tmp_path / "log", b"after\n")
    *lines, last = (tmp_path / "log").read_bytes().splitlines()
    assert [int(line[:6]) for line in lines] == list(range(len(lines)))
    assert {len(line) for line in lines} == {5006}
    assert last == b"after"


# One at a time -------------------------------------------------------------------------------------------------------


class InUseError(Exception):
    """What these tests say of a held folder."""


def test_a_folder_is_held_by_one_and_then_free_without_a_trace(tmp_path: Path) -> None:
    with (
        exclusive(tmp_path, InUseError("first")),
        pytest.raises(InUseError, match="second"),
        exclusive(tmp_path, InUseError("second")),
    ):
        pass
    assert names(tmp_path) == []
    with pytest.raises(ZeroDivisionError), exclusive(tmp_path, InUseError()):
        raise ZeroDivisionError
    with exclusive(tmp_path, InUseError()):
        pass


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
        with pytest.raises(InUseError), exclusive(tmp_path, InUseError()):
            pass
        process.kill()
    with exclusive(tmp_path, InUseError()):
        pass


def test_a_lock_its_holder_took_away_holds_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between opening the file and locking it, the last holder may leave and the next one make a new file."""
    flock, calls = durable.fcntl.flock, []

    def late(file: object, operation: int) -> None:
        flock(file, operation)  # type: ignore[arg-type]
        if not calls:
            (tmp_path / ".lock").unlink()
        calls.append(operation)

    monkeypatch.setattr(durable.fcntl, "flock", late)
    with exclusive(tmp_path, InUseError()):
        assert len(calls) == 2
        with pytest.raises(InUseError), exclusive(tmp_path, InUseError()):
            pass


def test_a_folder_may_go_while_it_is_held(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with exclusive(folder, InUseError()):
        shutil.rmtree(folder)


# Not too often -------------------------------------------------------------------------------------------------------


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


def test_without_a_pause_the_first_save_is_due_at_once() -> None:
    throttle = Throttle(share=0.05)
    assert throttle.is_due()
    with throttle.saving():
        time.sleep(0.01)
    assert not throttle.is_due()


def test_a_save_that_failed_is_not_tried_again_at_once() -> None:
    throttle = Throttle(share=1.0, pause=60.0, _saved_at=-math.inf)
    assert throttle.is_due()
    with pytest.raises(OSError, match="full"), throttle.saving():
        raise OSError("full")
    assert not throttle.is_due()
