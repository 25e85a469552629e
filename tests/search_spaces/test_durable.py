"""What is on disk is whole, whatever happens to the process that writes it: files and folders."""

from __future__ import annotations

import errno
import json
import math
import os
import random
from pathlib import Path

import pytest

from search_spaces.durable import append, remove_leftovers, staged, write_json, write_whole
from tests.conftest import disk_full_after
from tests.search_spaces.conftest import kill_in_the_middle, names

OLD, NEW = b"old\n" * 100, b"new\n" * 10_000


# Files ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("content", "sync"), [("text, ü\n", False), (b"\x00\xff", True)])
def test_a_file_is_replaced_and_folders_above_it_are_created(tmp_path: Path, content: str | bytes, sync: bool) -> None:
    path = tmp_path / "a" / "b" / "file.bin"
    for _ in range(2):
        write_whole(path, content, sync=sync)
    assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert names(path.parent) == ["file.bin"]


@pytest.mark.parametrize("attempt", range(3))
def test_a_killed_writer_leaves_the_old_content_or_the_new(tmp_path: Path, attempt: int) -> None:
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


def test_written_files_and_folders_follow_the_umask(tmp_path: Path) -> None:
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


def test_json_has_null_for_numbers_that_are_not_finite(tmp_path: Path) -> None:
    content = {"x": math.nan, "y": [math.inf, 1.5], "z": {"w": -math.inf}, 3: (1, None)}
    for indent in (2, None):
        write_json(tmp_path / "a.json", content, indent=indent)
        text = (tmp_path / "a.json").read_text()
        assert json.loads(text) == {"x": None, "y": [None, 1.5], "z": {"w": None}, "3": [1, None]}
        assert text.endswith("}\n")
        assert (text.count("\n") > 1) == (indent is not None)
    with pytest.raises(TypeError):
        write_json(tmp_path / "a.json", {"new": object()})
    assert (tmp_path / "a.json").read_text() == text
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
def test_a_killed_writer_leaves_a_whole_folder_or_none(tmp_path: Path, attempt: int) -> None:
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


def write_half(staging: Path, kind: str) -> None:
    """Write half of a file or folder and fail."""
    if kind == "file":
        staging.write_text("ne")
    else:
        fill(staging, "ne")
    raise RuntimeError("the disk refuses, says a library")


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_writer_that_fails_changes_nothing(tmp_path: Path, kind: str) -> None:
    write_whole(tmp_path / "file", "old")
    fill(tmp_path / "folder", "old")
    with pytest.raises(RuntimeError), staged(tmp_path / kind) as staging:
        write_half(staging, kind)
    assert (tmp_path / "file").read_text() == "old"
    assert contents(tmp_path / "folder") == {"old"}
    assert names(tmp_path) == ["file", "folder"]


def test_a_block_that_writes_nothing_changes_nothing_and_a_file_never_replaces_a_folder(tmp_path: Path) -> None:
    write_whole(tmp_path / "file", "old")
    with staged(tmp_path / "file"):
        pass
    assert (tmp_path / "file").read_text() == "old"
    fill(tmp_path / "folder", "old")
    with pytest.raises(OSError):  # noqa: PT011
        write_whole(tmp_path / "folder", "new")
    assert contents(tmp_path / "folder") == {"old"}


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
