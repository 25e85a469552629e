"""Whether the files of a cached model are still what was written: a disk that lost some gives a sweep of nonsense."""

from __future__ import annotations

import contextlib
import os
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from search_spaces.durable import write_whole
from trainables.target.finetune import TargetError

CHECKSUMS = "checksums.crc32"
"""A line per file, its checksum and its name. No ``.json``, which would be part of the folder's content hash."""

_BLOCK = 1 << 26  # bytes; blocks are read side by side, since one core alone reads a GB a second


def write_checksums(folder: Path) -> None:
    """Note down what is in a folder that has just been written.

    Raises:
        OSError: the disk refuses.
    """
    names = sorted(path.name for path in folder.iterdir() if path.is_file() and path.name != CHECKSUMS)
    write_whole(folder / CHECKSUMS, "".join(f"{_checksum(folder / name)}  {name}\n" for name in names))


def require_undamaged(folder: Path) -> None:
    """Compare a folder with its checksums. One from before there were any gets them now.

    Raises:
        TargetError: names the files that differ, and says what to do.
    """
    try:
        lines = (folder / CHECKSUMS).read_text(encoding="utf-8").splitlines()
        known = {name: checksum for checksum, name in (line.split("  ", 1) for line in lines)}
    except FileNotFoundError:
        with contextlib.suppress(OSError):  # a cache that others keep
            write_checksums(folder)
        return
    except ValueError:
        known = {CHECKSUMS: ""}
    differing = sorted(name for name, checksum in known.items() if _checksum(folder / name) != checksum)
    if differing:
        raise TargetError(
            f"the cached model {folder} is damaged: {', '.join(differing)} "
            f"{'are' if len(differing) > 1 else 'is'} not as written; delete that folder, and the model is made again"
        )


def _checksum(path: Path) -> str:
    """8 hex digits, the CRC-32 of the CRC-32s of the blocks; "" where there is no such file."""
    try:
        with path.open("rb") as file, ThreadPoolExecutor() as pool:
            offsets = range(0, max(1, path.stat().st_size), _BLOCK)
            parts = pool.map(lambda offset: zlib.crc32(os.pread(file.fileno(), _BLOCK, offset)), offsets)
            return f"{zlib.crc32(b''.join(part.to_bytes(4, 'little') for part in parts)):08x}"
    except FileNotFoundError:
        return ""
