"""The checksums of a folder's files, in a file beside them: whether they are still what was written."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from search_spaces.durable import write_whole

CHECKSUMS = "checksums.crc32"
"""A line per file, its checksum and its name. No ``.json``, which would be part of the folder's content hash."""

_BLOCK = 1 << 26  # bytes; blocks are read side by side, since one core alone reads a GB a second


def write_checksums(folder: Path) -> None:
    """Note down what is in a folder that has just been written.

    Raises:
        OSError: the disk refuses.
    """
    names = sorted(path.name for path in folder.iterdir() if path.is_file())
    write_whole(folder / CHECKSUMS, as_list(folder, names))


def as_list(folder: Path, names: Iterable[str]) -> str:
    """The list of the files of these names; its own is left out."""
    return "".join(f"{_checksum(folder / name)}  {name}\n" for name in names if name != CHECKSUMS)


def listed(folder: Path) -> dict[str, str]:
    """The checksums of a folder by file; of a list that cannot be read only itself, without one.

    Raises:
        OSError: there is no list.
    """
    return parsed((folder / CHECKSUMS).read_bytes())


def parsed(content: bytes) -> dict[str, str]:
    """The same of the list's content."""
    try:
        lines = content.decode().splitlines()
        return {name: checksum for checksum, name in (line.split("  ", 1) for line in lines)}
    except ValueError:
        return {CHECKSUMS: ""}


def damaged(folder: Path, known: Mapping[str, str] | None = None) -> list[str]:
    """The files of a folder that differ from its checksums, or from those ``known`` from elsewhere; [] if none does.

    Raises:
        OSError: there is no list.
    """
    known = listed(folder) if known is None else known
    return sorted(name for name, checksum in known.items() if _checksum(folder / name) != checksum)


def _checksum(path: Path) -> str:
    """8 hex digits, the CRC-32 of the CRC-32s of the blocks; "" where there is no such file."""
    try:
        with path.open("rb") as file, ThreadPoolExecutor() as pool:
            offsets = range(0, max(1, path.stat().st_size), _BLOCK)
            parts = pool.map(lambda offset: zlib.crc32(os.pread(file.fileno(), _BLOCK, offset)), offsets)
            return f"{zlib.crc32(b''.join(part.to_bytes(4, 'little') for part in parts)):08x}"
    except FileNotFoundError:
        return ""
