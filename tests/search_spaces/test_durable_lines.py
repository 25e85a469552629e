"""A file that grows by lines has whole ones only, whatever happens to the process that writes it."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces import durable
from search_spaces.durable import append, cut_torn_line, whole_lines
from tests.conftest import disk_full_after
from tests.search_spaces.conftest import kill_in_the_middle, names

WITHOUT_NEWLINE = st.binary(max_size=20).map(lambda line: line.replace(b"\n", b""))
LINES = st.lists(WITHOUT_NEWLINE.map(lambda line: line + b"\n"), max_size=8).map(b"".join)


@given(whole=LINES, torn=WITHOUT_NEWLINE, after=LINES.filter(bool))
def test_a_torn_last_line_is_cut_before_lines_are_added(
    tmp_path_factory: pytest.TempPathFactory, whole: bytes, torn: bytes, after: bytes
) -> None:
    path = tmp_path_factory.mktemp("lines") / "log"
    assert whole_lines(whole + torn) == whole
    path.write_bytes(whole + torn)
    cut_torn_line(path)
    assert path.read_bytes() == whole
    path.write_bytes(whole + torn)
    append(path, after, header=b"header\n")
    assert path.read_bytes() == (whole or b"header\n") + after


@pytest.mark.parametrize("length", [durable._BLOCK - 1, durable._BLOCK, durable._BLOCK + 1, 3 * durable._BLOCK])
def test_a_torn_line_may_be_longer_than_a_block(tmp_path: Path, length: int) -> None:
    for before in (b"", b"kept\n", b"x" * durable._BLOCK + b"\n"):
        (tmp_path / "log").write_bytes(before + b"y" * length)
        cut_torn_line(tmp_path / "log")
        assert (tmp_path / "log").read_bytes() == before


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


def test_a_missing_folder_or_file_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        append(tmp_path / "gone" / "log", b"x\n")
    cut_torn_line(tmp_path / "log")
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
