"""Write and verify the checksums of the files in a folder. The checksums are listed in a file of the same folder."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from search_spaces.durable import write_whole

CHECKSUMS = "checksums.crc32"
"""The file that lists the checksums. It has one line per file, with the file's checksum and name. The list is not a
``.json`` file, because all JSON files of a folder enter the folder's content hash, and the list must not."""

_BLOCK = 1 << 26  # bytes; blocks are read in parallel, because a single core reads only 1 GB/s


def write_checksums(folder: Path) -> None:
    """Write the checksums of all files in a folder.

    Raises:
        OSError: a file cannot be read or the list cannot be written.
    """
    names = sorted(path.name for path in folder.iterdir() if path.is_file())
    write_whole(folder / CHECKSUMS, format_checksums(folder, names))


def format_checksums(folder: Path, names: Iterable[str]) -> str:
    """Return the text of a checksum file that lists the files ``names``. The checksum file itself is not listed."""
    return "".join(f"{_checksum(folder / name)}  {name}\n" for name in names if name != CHECKSUMS)


def read_checksums(folder: Path) -> dict[str, str]:
    """Return the checksums of a folder by file name.

    If the list of checksums cannot be parsed, the only key of the result is the list's own file name, so that
    :func:`damaged_files` reports the list as damaged.

    Raises:
        OSError: the list is missing.
    """
    return parse_checksums((folder / CHECKSUMS).read_bytes())


def parse_checksums(content: bytes) -> dict[str, str]:
    """Parse the content of a list of checksums. The result is that of :func:`read_checksums`."""
    try:
        lines = content.decode().splitlines()
        return {name: checksum for checksum, name in (line.split("  ", 1) for line in lines)}
    except ValueError:
        return {CHECKSUMS: ""}


def damaged_files(folder: Path, known: Mapping[str, str] | None = None) -> list[str]:
    """Return the names of files that do not match their checksums.

    If ``known`` is None, the checksums are read from the folder's list.

    Raises:
        OSError: ``known`` is None, and the folder has no list of checksums.
    """
    known = read_checksums(folder) if known is None else known
    return sorted(name for name, checksum in known.items() if _checksum(folder / name) != checksum)


def _checksum(path: Path) -> str:
    """Return the CRC-32 of the CRC-32s of a file's blocks, in 8 hex digits; "" if the file is missing."""
    try:
        with path.open("rb") as file, ThreadPoolExecutor() as pool:
            offsets = range(0, max(1, path.stat().st_size), _BLOCK)
            parts = pool.map(lambda offset: zlib.crc32(os.pread(file.fileno(), _BLOCK, offset)), offsets)
            return f"{zlib.crc32(b''.join(part.to_bytes(4, 'little') for part in parts)):08x}"
    except FileNotFoundError:
        return ""
