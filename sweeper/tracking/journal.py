"""What the sweep has recorded and how much of it MLflow has: files that survive ``kill -9`` of the sweep.

``journal.jsonl`` only grows: one line per record, first a header with the sweep's own id. For every place records are
sent to (a tracking URI and an experiment) one ``delivered-KEY.json`` keeps how far the journal has been sent and the
run ids MLflow gave, so a sweep resumed with another ``--tracking-uri`` sends everything there.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from sweeper.tracking.records import Record, from_line

_BLOCK = 1 << 20  # bytes read at a time


@dataclass(frozen=True, slots=True)
class Entry:
    """A record and the byte offset of its line."""

    offset: int
    record: Record


class Journal:
    """An append-only file of records: one thread appends, another reads behind it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "journal.jsonl"
        self.sweep_id = ""
        self.size = 0
        self.size_at_open = 0
        self._file: io.FileIO | None = None

    @property
    def is_open(self) -> bool:
        """Whether records can be appended and read."""
        return self._file is not None

    def open(self) -> None:
        """Open or create the file and drop a last line cut short by a crash. Raises OSError when it cannot."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = io.FileIO(self.path, "a+")
        try:
            self._drop_torn_line(file)
            with self.path.open("rb") as reader:
                sweep_id = _header_id(reader.readline())
            if sweep_id is None and file.seek(0, os.SEEK_END) > 0:
                file.close()
                self.path.replace(self.path.with_suffix(".damaged"))
                file = io.FileIO(self.path, "a+")
            if sweep_id is None:
                sweep_id = uuid.uuid4().hex
                _write_whole(file, json.dumps({"kind": "journal", "sweep_id": sweep_id}).encode() + b"\n", at=0)
            self.sweep_id = sweep_id
            self.size = self.size_at_open = file.seek(0, os.SEEK_END)
        except BaseException:
            file.close()
            raise
        self._file = file

    def append(self, lines: Sequence[bytes]) -> None:
        """Write lines, all or none: they survive the death of this process. Raises OSError (a full disk, not open)."""
        if self._file is None:
            raise OSError("the journal could not be opened")
        data = b"".join(lines)
        _write_whole(self._file, data, at=self.size)
        self.size += len(data)

    def read(self, offset: int) -> tuple[list[Entry], int]:
        """The records of about the next megabyte from ``offset``, and the offset behind them."""
        entries = []
        with self.path.open("rb") as file:
            file.seek(offset)
            for line in file.readlines(_BLOCK):
                if not line.endswith(b"\n"):
                    break
                record = from_line(line)
                if record is not None:
                    entries.append(Entry(offset, record))
                offset += len(line)
        return entries, offset

    def read_one(self, offset: int) -> Entry | None:
        """The record whose line begins at ``offset``."""
        with self.path.open("rb") as file:
            file.seek(offset)
            record = from_line(file.readline())
        return None if record is None else Entry(offset, record)

    def records(self, offset: int = 0) -> Iterator[Record]:
        """All records from ``offset`` to the end."""
        while True:
            entries, end = self.read(offset)
            if end == offset:
                return
            yield from (entry.record for entry in entries)
            offset = end

    def close(self) -> None:
        """Append no more."""
        if self._file is not None:
            self._file.close()
            self._file = None

    @staticmethod
    def _drop_torn_line(file: io.FileIO) -> None:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - _BLOCK)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                file.truncate(start + newline + 1)
                return
            end = start
        file.truncate(0)


@dataclass(slots=True)
class Progress:
    """How much of a journal one MLflow experiment has. ``runs`` maps trial ids to run ids, ``SWEEP`` to the parent's.

    ``offset``: all before it is delivered, save the records at the offsets in ``later``: artifacts that wait until
    there is nothing more urgent, and records MLflow refused, which are tried again when the sweep is resumed.
    """

    sweep_id: str
    offset: int = 0
    runs: dict[str, str] = field(default_factory=dict)
    later: list[int] = field(default_factory=list)

    @classmethod
    def load(cls, path: Path, sweep_id: str) -> Progress:
        """What was saved for this sweep; nothing delivered when there is no such file or it cannot be read."""
        with contextlib.suppress(OSError, ValueError, TypeError):
            found = cls(**json.loads(path.read_text()))
            if found.sweep_id == sweep_id:
                return found
        return cls(sweep_id)

    def save(self, path: Path) -> None:
        """Replace the file in one step."""
        draft = path.with_suffix(".tmp")
        draft.write_text(json.dumps(asdict(self)))
        draft.replace(path)


def progress_path(folder: Path, destination: str) -> Path:
    """The file of a destination's progress; ``destination`` is hashed."""
    return folder / f"delivered-{hashlib.sha256(destination.encode()).hexdigest()[:12]}.json"


def _header_id(line: bytes) -> str | None:
    try:
        return str(json.loads(line)["sweep_id"])
    except (ValueError, KeyError, TypeError):
        return None


def _write_whole(file: io.FileIO, data: bytes, *, at: int) -> None:
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[file.write(rest) or 0 :]
    except OSError:
        with contextlib.suppress(OSError):
            file.truncate(at)
        raise
