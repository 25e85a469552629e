"""The storage of a sweep that is no folder of its driver: a bucket, or a shared folder, through which its files travel.

Whoever has the address has the storage: credentials are the machine's (``AWS_*`` variables, a role), never part of it.
Each key has one writer. A file is there whole or not at all. A folder is many objects, of which the last to come and
the first to go is the list of the others with their checksums: without that there is no folder.
"""

from __future__ import annotations

import contextlib
import functools
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from search_spaces.checksums import CHECKSUMS, as_list, damaged, listed
from search_spaces.durable import remove_whole, staged, write_whole

_SECRET = re.compile(r"key|secret|token|passw|pwd|sig|credential", re.IGNORECASE)
_KINDS = "s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/PREFIX"
_GOOGLE_PATIENCE = "retry_limit_seconds=30"
"""Google's client tries for a quarter of an hour by itself."""


class StorageError(RuntimeError):
    """The storage refuses or does not answer; the message has its reason."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Storage:
    """A folder at an address as :func:`pyarrow.fs.FileSystem.from_uri` reads it; keys are relative to it.

    Every method raises StorageError where the storage refuses or does not answer.
    """

    uri: str

    def within(self, name: str) -> Storage:
        """The folder of this name in it."""
        address, mark, options = self.uri.partition("?")
        return Storage(f"{address.rstrip('/')}/{name}{mark}{options}")

    @property
    def above(self) -> Storage:
        """The folder that it is in."""
        address, mark, options = self.uri.partition("?")
        return Storage(f"{address.rstrip('/').rpartition('/')[0]}{mark}{options}")

    @property
    def name(self) -> str:
        """The last part of its address."""
        return self.uri.partition("?")[0].rstrip("/").rpartition("/")[2]

    @property
    def filesystem(self) -> Any:
        """What it is for pyarrow, and so for Ray."""
        return _opened(self.uri)[0]

    @property
    def path(self) -> str:
        """Where in :attr:`filesystem`."""
        return _opened(self.uri)[1]

    def put(self, local: Path, key: str, *, names: Iterable[str] | None = None) -> None:
        """Copy a file, or a folder or the files of these names in it, here; what had the key before is replaced.

        Raises:
            OSError: the local one cannot be read.
        """
        if not local.is_dir():
            self._upload(local, key)
            return
        if names is None:
            names = (path.relative_to(local).as_posix() for path in local.rglob("*") if path.is_file())
        chosen = sorted(set(names) - {CHECKSUMS})
        self.delete(key)
        for name in chosen:
            self._upload(local / name, f"{key}/{name}")
        self.write(f"{key}/{CHECKSUMS}", as_list(local, chosen).encode())

    def has_folder(self, key: str) -> bool:
        """Whether there is a whole folder of this key."""
        return self.read(f"{key}/{CHECKSUMS}") is not None

    def get(self, key: str, local: Path) -> bool:
        """Copy a file, or a folder, from here, so that it is whole or not there; False where there is no such key.

        Raises:
            OSError: it cannot be written.
        """
        with staged(local) as staging:
            if self._download(key, staging):
                return True
            staging.mkdir(parents=True)
            if not self._download(f"{key}/{CHECKSUMS}", staging / CHECKSUMS):
                remove_whole(staging)
                return False
            for name in listed(staging):
                if not (staging / name).resolve().is_relative_to(staging.resolve()):
                    raise StorageError(f"{key}: {name} is not the name of a file in it")
                (staging / name).parent.mkdir(parents=True, exist_ok=True)
                if not self._download(f"{key}/{name}", staging / name):
                    remove_whole(staging)
                    return False  # its writer is just deleting it
            if wrong := damaged(staging):
                raise StorageError(f"{key}: {', '.join(wrong)} did not arrive as written")
        return True

    def read(self, key: str) -> bytes | None:
        """The content of a file; None where there is no such key."""
        with _told(self.uri):
            try:
                with self.filesystem.open_input_stream(self._place(key)) as stream:
                    content: bytes = stream.read()
            except FileNotFoundError:
                return None
        return content

    def write(self, key: str, content: bytes) -> None:
        """Make a small file of this content."""
        if self._is_local:
            with _told(self.uri):
                write_whole(Path(self._place(key)), content)
            return
        with _told(self.uri), self.filesystem.open_output_stream(self._place(key)) as stream:
            stream.write(content)

    def delete(self, key: str) -> None:
        """Delete a file or a folder; nothing where there is none."""
        if self._is_local:
            with _told(self.uri):
                remove_whole(Path(self._place(key)))
            return
        from pyarrow.fs import FileType

        place, filesystem = self._place(key), self.filesystem
        with _told(self.uri):
            kind = filesystem.get_file_info(place).type
            with contextlib.suppress(FileNotFoundError):
                if kind == FileType.File:
                    filesystem.delete_file(place)
                elif kind == FileType.Directory:
                    with contextlib.suppress(FileNotFoundError):
                        filesystem.delete_file(f"{place}/{CHECKSUMS}")
                    filesystem.delete_dir(place)

    def files(self, key: str = "") -> list[str]:
        """The files in a folder and the folders below, relative to it, in order."""
        return sorted(name for name, is_file in self._entries(key, recursive=True) if is_file)

    def names(self, key: str = "", *, folders: bool) -> list[str]:
        """The folders, or else the files, that are in a folder itself, in order."""
        return sorted(name for name, is_file in self._entries(key, recursive=False) if is_file != folders)

    def _entries(self, key: str, *, recursive: bool) -> Iterator[tuple[str, bool]]:
        from pyarrow.fs import FileSelector, FileType

        place = self._place(key).rstrip("/")
        with _told(self.uri):
            found = self.filesystem.get_file_info(FileSelector(place, allow_not_found=True, recursive=recursive))
        for entry in found:
            name = entry.path[len(place) :].strip("/")
            if name and not name.rpartition("/")[2].startswith("."):  # else what a writer has not finished
                yield name, entry.type == FileType.File

    def _place(self, key: str) -> str:
        return f"{self.path.rstrip('/')}/{key}".rstrip("/")

    @property
    def _is_local(self) -> bool:
        return bool(self.filesystem.type_name == "local")

    def _upload(self, local: Path, key: str) -> None:
        place = self._place(key)
        with _told(self.uri):
            if self._is_local:
                with staged(Path(place)) as staging:
                    shutil.copyfile(local, staging)
                return
            from pyarrow.fs import LocalFileSystem, copy_files

            with local.open("rb"):  # its reader's error says what it was, the storage's would not
                pass
            copy_files(
                str(local.absolute()),
                place,
                source_filesystem=LocalFileSystem(),
                destination_filesystem=self.filesystem,
            )

    def _download(self, key: str, local: Path) -> bool:
        from pyarrow.fs import FileType, LocalFileSystem, copy_files

        place = self._place(key)
        with _told(self.uri):
            if self.filesystem.get_file_info(place).type != FileType.File:
                return False
            try:
                copy_files(
                    place,
                    str(local.absolute()),
                    source_filesystem=self.filesystem,
                    destination_filesystem=LocalFileSystem(),
                )
            except FileNotFoundError:
                return False
        return True


def is_address(text: object) -> bool:
    """Whether it names a storage by its address, and is no path."""
    return isinstance(text, str) and "://" in text


def storage_problem(uri: str) -> str | None:
    """A plain sentence saying why a sweep cannot use a storage, or None: a file is written to it and read back."""
    if wrong := address_problem(uri):
        return wrong
    probe, content = f".probe-{uuid.uuid4().hex[:12]}", uuid.uuid4().bytes
    try:
        storage = Storage(uri)
        storage.write(probe, content)
        found = storage.read(probe)
        storage.delete(probe)
    except StorageError as error:
        return f"--storage {error}"
    return None if found == content else f"--storage {uri}: what is written to it is not what is read from it"


def address_problem(uri: str) -> str | None:
    """The same of the address alone, without looking there; one with credentials is not repeated."""
    try:
        parts = urlsplit(uri)
        secret = (
            parts.password is not None
            or (parts.username is not None and parts.scheme.startswith("s3"))
            or any(_SECRET.search(name) or "@" in value for name, value in parse_qsl(parts.query))
        )
    except ValueError as error:
        return f"--storage: its address cannot be read: {error}"
    if secret:
        return (
            "--storage: its address has credentials, which would be in every file that names it; give them by the "
            "environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY) or the machine's role"
        )
    if not parts.netloc and parts.scheme != "file":
        return f"--storage {uri}: it names no bucket; expected a folder, or {_KINDS}"
    return None


@functools.cache
def _opened(uri: str) -> tuple[Any, str]:
    from pyarrow.fs import FileSystem

    patient = uri
    if uri.startswith(("gs://", "gcs://")) and "retry_limit_seconds" not in uri:
        patient += ("&" if "?" in uri else "?") + _GOOGLE_PATIENCE
    with _told(uri):
        filesystem, path = FileSystem.from_uri(patient)
    return filesystem, path


@contextlib.contextmanager
def _told(uri: str) -> Iterator[None]:
    """Turn what pyarrow raises, but that something is missing, into a StorageError of one line."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise
    except (OSError, ValueError, NotImplementedError) as error:  # Arrow's own are of these
        text = (str(error).strip() or type(error).__name__).splitlines()[0]
        if (start := text.find("AWS Error")) >= 0:
            text = text[start:]
        text = re.sub(r" \(Request ID: [^)]*\)", "", text)
        raise StorageError(f"{uri.partition('?')[0]}: {text}"[:300]) from error
