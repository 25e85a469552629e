"""Write and verify the checksums of a folder's files, which are listed in a file of the folder."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from search_spaces.durable import write_whole

CHECKSUMS = "checksums.crc32"
"""One line per file with checksum and name. Not ``.json``, because such files are part of the folder's content hash."""

_BLOCK = 1 << 26  # bytes; blocks are read in parallel, because a single core reads only 1 GB/s


def write_checksums(folder: Path) -> None:
    """Write the checksums of a complete folder.

    Raises:
        OSError: the disk refuses.
    """
    names = sorted(path.name for path in folder.iterdir() if path.is_file())
    write_whole(folder / CHECKSUMS, format_checksums(folder, names))


def format_checksums(folder: Path, names: Iterable[str]) -> str:
    """Return the list of the named files, without the list itself."""
    return "".join(f"{_checksum(folder / name)}  {name}\n" for name in names if name != CHECKSUMS)


def read_checksums(folder: Path) -> dict[str, str]:
    """Return the checksums of a folder by file; for an unreadable list only the list itself, with an empty checksum.

    Raises:
        OSError: the list is missing.
    """
    return parse_checksums((folder / CHECKSUMS).read_bytes())


def parse_checksums(content: bytes) -> dict[str, str]:
    """Return the checksums in the content of a list, as :func:`read_checksums` does."""
    try:
        lines = content.decode().splitlines()
        return {name: checksum for checksum, name in (line.split("  ", 1) for line in lines)}
    except ValueError:
        return {CHECKSUMS: ""}


def damaged_files(folder: Path, known: Mapping[str, str] | None = None) -> list[str]:
    """Return the files of a folder that differ from its checksums, or from the ``known`` ones.

    Raises:
        OSError: the list is missing.
    """
    known = read_checksums(folder) if known is None else known
    return sorted(name for name, checksum in known.items() if _checksum(folder / name) != checksum)


def _checksum(path: Path) -> str:
    """Return 8 hex digits, the CRC-32 of the CRC-32s of the blocks; "" if the file is missing."""
    try:
        with path.open("rb") as file, ThreadPoolExecutor() as pool:
            offsets = range(0, max(1, path.stat().st_size), _BLOCK)
            parts = pool.map(lambda offset: zlib.crc32(os.pread(file.fileno(), _BLOCK, offset)), offsets)
            return f"{zlib.crc32(b''.join(part.to_bytes(4, 'little') for part in parts)):08x}"
    except FileNotFoundError:
        return ""
