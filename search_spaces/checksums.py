"""Write and verify the checksums of the files in a folder. A file in the same folder lists the checksums."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from search_spaces.durable import write_whole

CHECKSUMS = "checksums.crc32"
"""The file that lists the checksums: one line per file, with checksum and name. It is not a ``.json`` file, because the
content hash of a folder includes its JSON files."""

_BLOCK = 1 << 26  # bytes; blocks are read in parallel, because a single core reads only 1 GB/s


def write_checksums(folder: Path) -> None:
    """Write the checksums of all files in a folder.

    Raises:
        OSError: a file cannot be read or the list cannot be written.
    """
    names = sorted(path.name for path in folder.iterdir() if path.is_file())
    write_whole(folder / CHECKSUMS, format_checksums(folder, names))


def format_checksums(folder: Path, names: Iterable[str]) -> str:
    """Return the list of checksums of the named files, as text. The list does not include itself."""
    return "".join(f"{_checksum(folder / name)}  {name}\n" for name in names if name != CHECKSUMS)


def read_checksums(folder: Path) -> dict[str, str]:
    """Return the checksums of a folder by file name.

    If the list of checksums cannot be parsed, the result has only the name of the list. Then the list counts as
    damaged.

    Raises:
        OSError: the list is missing.
    """
    return parse_checksums((folder / CHECKSUMS).read_bytes())


def parse_checksums(content: bytes) -> dict[str, str]:
    """Parse the content of a list of checksums. Return the same mapping as :func:`read_checksums`."""
    try:
        lines = content.decode().splitlines()
        return {name: checksum for checksum, name in (line.split("  ", 1) for line in lines)}
    except ValueError:
        return {CHECKSUMS: ""}


def damaged_files(folder: Path, known: Mapping[str, str] | None = None) -> list[str]:
    """Return the names of files that do not match their checksums.

    The checksums are ``known``, or those of the folder's list if ``known`` is None.

    Raises:
        OSError: the folder's list is needed but missing.
    """
    known = read_checksums(folder) if known is None else known
    return sorted(name for name, checksum in known.items() if _checksum(folder / name) != checksum)


def _checksum(path: Path) -> str:
    """Return the checksum of a file: the CRC-32 of its blocks' CRC-32s, in 8 hex digits; "" if the file is missing."""
    try:
        with path.open("rb") as file, ThreadPoolExecutor() as pool:
            offsets = range(0, max(1, path.stat().st_size), _BLOCK)
            parts = pool.map(lambda offset: zlib.crc32(os.pread(file.fileno(), _BLOCK, offset)), offsets)
            return f"{zlib.crc32(b''.join(part.to_bytes(4, 'little') for part in parts)):08x}"
    except FileNotFoundError:
        return ""
