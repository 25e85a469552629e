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

LINES = st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"") + b"\n"), max_size=8)


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
