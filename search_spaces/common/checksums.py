"""Write and check the checksums of a folder's files. The checksums are listed in a file of this folder."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from search_spaces.common.durable import write_atomically

# Not a .json file: all JSON files of a folder enter the folder's content hash.
CHECKSUMS = "checksums.crc32"
"""The name of the checksum file. Each line has a checksum and a file name."""

_BLOCK = 1 << 26  # bytes; blocks are read in parallel, because a single core reads only 1 GB/s


def write_checksums(folder: Path) -> None:
    """Write the checksums of all files in a folder.

    Raises:
        OSError: a file cannot be read or written.
    """
    names = sorted(path.name for path in folder.iterdir() if path.is_file())
    write_atomically(folder / CHECKSUMS, format_checksums(folder, names))


def format_checksums(folder: Path, names: Iterable[str]) -> str:
    """Return the content of a checksum file that lists the files ``names`` of a folder."""
    return "".join(f"{_checksum(folder / name)}  {name}\n" for name in names if name != CHECKSUMS)


def read_checksums(folder: Path) -> dict[str, str]:
    """Return the checksums in a folder's checksum file, by file name.

    Raises:
        OSError: the checksum file cannot be read.
    """
    return parse_checksums((folder / CHECKSUMS).read_bytes())


def parse_checksums(content: bytes) -> dict[str, str]:
    """Return the checksums in the content of a checksum file, by file name.

    If the content cannot be parsed, return ``{CHECKSUMS: ""}``. :func:`damaged_files` then reports the checksum file.
    """
    try:
        pairs = (line.split("  ", 1) for line in content.decode().splitlines())
        return {name: checksum for checksum, name in pairs}
    except ValueError:
        return {CHECKSUMS: ""}


def damaged_files(folder: Path, checksums: Mapping[str, str] | None = None) -> list[str]:
    """Return the names of the files that do not match their checksums.

    If ``checksums`` is None, the checksums are read from the folder's checksum file.

    Raises:
        OSError: the checksum file cannot be read.
    """
    checksums = read_checksums(folder) if checksums is None else checksums
    return sorted(name for name, checksum in checksums.items() if _checksum(folder / name) != checksum)


def _checksum(path: Path) -> str:
    """Return the CRC-32 of the CRC-32s of a file's blocks, as 8 hex digits. Return "" for a missing file."""
    try:
        with path.open("rb") as file, ThreadPoolExecutor() as pool:
            offsets = range(0, max(1, path.stat().st_size), _BLOCK)
            block_crcs = pool.map(lambda offset: zlib.crc32(os.pread(file.fileno(), _BLOCK, offset)), offsets)
            crc_bytes = b"".join(crc.to_bytes(4, "little") for crc in block_crcs)
            return f"{zlib.crc32(crc_bytes):08x}"
    except FileNotFoundError:
        return ""
