"""Recognise the small text files that Git LFS leaves in place of large files that were not downloaded."""

from __future__ import annotations

from pathlib import Path

_START = b"version https://git-lfs.github.com/spec/"
LFS_POINTER = "is a Git LFS pointer, not the file itself; download the file with 'git lfs pull'"


def is_lfs_pointer(path: Path) -> bool:
    """Return whether a file is a Git LFS pointer. Raises OSError."""
    with path.open("rb") as file:
        return file.read(len(_START)) == _START
