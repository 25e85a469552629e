"""Read and write the storage of a sweep: a bucket, or a shared folder.

Credentials come from the machine (``AWS_*`` variables or a role), not from the address. Each key must have only one
writer at a time. Files are written atomically. A folder is stored as one object per file, plus a list of the file names
and checksums. This list is written last and deleted first. A folder without the list counts as missing.
"""

from __future__ import annotations

import contextlib
import functools
import io
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import parse_qsl, urlsplit

from search_spaces.common.checksums import CHECKSUMS, damaged_files, format_checksums, parse_checksums
from search_spaces.common.durable import remove_atomically, staged, write_atomically
from search_spaces.common.messages import first_line

_SECRET = re.compile(r"key|secret|token|passw|pwd|sig|credential", re.IGNORECASE)
_ADDRESS_FORMATS = "s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/PREFIX"
_BLOCK = 1 << 22  # bytes copied at a time
_GOOGLE_RETRY = "retry_limit_seconds=30"
"""Let Google's client retry for 30 seconds instead of 15 minutes."""


class StorageError(RuntimeError):
    """Raised if the storage denies access, reports an error or does not answer."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Storage:
    """A folder in a storage. Keys are paths relative to the folder.

    ``uri`` is an address for :func:`pyarrow.fs.FileSystem.from_uri`. Every method can raise :class:`StorageError`.
    """

    uri: str

    def subfolder(self, name: str) -> Storage:
        address, separator, options = self.uri.partition("?")
        return Storage(f"{address.rstrip('/')}/{name}{separator}{options}")

    @property
    def parent(self) -> Storage:
        address, separator, options = self.uri.partition("?")
        return Storage(f"{address.rstrip('/').rpartition('/')[0]}{separator}{options}")

    @property
    def name(self) -> str:
        """The folder's name, which is the last part of its address."""
        return self.uri.partition("?")[0].rstrip("/").rpartition("/")[2]

    @property
    def filesystem(self) -> Any:
        """The pyarrow file system, which Ray also uses."""
        return _open_filesystem(self.uri)[0]

    @property
    def path(self) -> str:
        return _open_filesystem(self.uri)[1]

    def put(self, local: Path, key: str, *, names: Iterable[str] | None = None) -> None:
        """Upload a file or a folder. An existing file or folder with this key is replaced.

        Args:
            names: the files to upload if ``local`` is a folder; None for all files.

        Raises:
            OSError: a local file cannot be read.
        """
        if not local.is_dir():
            self._upload(local, key)
            return
        if names is None:
            names = (path.relative_to(local).as_posix() for path in local.rglob("*") if path.is_file())
        file_names = sorted(set(names) - {CHECKSUMS})
        self.delete(key)
        for name in file_names:
            self._upload(local / name, f"{key}/{name}")
        self.write(f"{key}/{CHECKSUMS}", format_checksums(local, file_names).encode())

    def has_folder(self, key: str) -> bool:
        """Return whether a complete folder with this key exists."""
        return self.read(f"{key}/{CHECKSUMS}") is not None

    def get(self, key: str, local: Path) -> bool:
        """Download a file or a folder atomically; return False if the key does not exist.

        Raises:
            OSError: the local file cannot be written.
        """
        with staged(local) as staging:
            listing = self.read(f"{key}/{CHECKSUMS}")
            if listing is None:
                is_complete = self._is_file(key) and self._download(key, staging)
            else:
                is_complete = self._download_folder(key, staging, listing)
            if not is_complete:
                remove_atomically(staging)
        return is_complete

    def read(self, key: str) -> bytes | None:
        """Return the content of a file; None if the key does not exist."""
        content = io.BytesIO()
        return content.getvalue() if self._copy_to(content, key) else None

    def write(self, key: str, content: bytes) -> None:
        self._copy_from(io.BytesIO(content), key)

    def delete(self, key: str) -> None:
        """Delete a file or a folder, if it exists."""
        if self._is_local:
            with _as_storage_error(self.uri):
                remove_atomically(Path(self._full_path(key)))
            return
        from pyarrow.fs import FileType

        path, filesystem = self._full_path(key), self.filesystem
        with _as_storage_error(self.uri):
            file_type = filesystem.get_file_info(path).type
            with contextlib.suppress(FileNotFoundError):
                if file_type == FileType.File:
                    filesystem.delete_file(path)
                elif file_type == FileType.Directory:
                    with contextlib.suppress(FileNotFoundError):
                        filesystem.delete_file(f"{path}/{CHECKSUMS}")
                    filesystem.delete_dir(path)

    def names(self, key: str = "", *, folders: bool) -> list[str]:
        """Return the sorted names of the files in a folder. If ``folders`` is true, return those of its subfolders."""
        from pyarrow.fs import FileSelector, FileType

        file_type = FileType.Directory if folders else FileType.File
        with _as_storage_error(self.uri):
            infos = self.filesystem.get_file_info(FileSelector(self._full_path(key), allow_not_found=True))
        names = (info.path.rstrip("/").rpartition("/")[2] for info in infos if info.type == file_type)
        # Hidden files are temporary files of a writer.
        return sorted(name for name in names if not name.startswith("."))

    def _full_path(self, key: str) -> str:
        return f"{self.path.rstrip('/')}/{key}".rstrip("/")

    def _is_file(self, key: str) -> bool:
        from pyarrow.fs import FileType

        with _as_storage_error(self.uri):
            return bool(self.filesystem.get_file_info(self._full_path(key)).type == FileType.File)

    @property
    def _is_local(self) -> bool:
        return bool(self.filesystem.type_name == "local")

    def _upload(self, local: Path, key: str) -> None:
        with local.open("rb") as source:
            self._copy_from(source, key)

    def _download(self, key: str, local: Path) -> bool:
        local.parent.mkdir(parents=True, exist_ok=True)
        with local.open("wb") as target:
            return self._copy_to(target, key)

    def _download_folder(self, key: str, local: Path, listing: bytes) -> bool:
        """Download the files in a folder's list of checksums; return False if a file is missing."""
        checksums = parse_checksums(listing)
        for name in checksums:
            if not (local / name).resolve().is_relative_to(local.resolve()):
                raise StorageError(f"{key}: the listed file {name} lies outside the folder")
        # A file is missing if the writer is deleting the folder.
        is_complete = all(self._download(f"{key}/{name}", local / name) for name in checksums)
        damaged = damaged_files(local, checksums) if is_complete else []
        if damaged:
            raise StorageError(f"{key}: these files were damaged during the download: {', '.join(damaged)}")
        write_atomically(local / CHECKSUMS, listing)
        return is_complete

    def _copy_from(self, source: IO[bytes], key: str) -> None:
        path = self._full_path(key)
        with _as_storage_error(self.uri), contextlib.ExitStack() as stack:
            if self._is_local:
                staging = stack.enter_context(staged(Path(path)))
                target = stack.enter_context(staging.open("wb"))
            else:
                target = stack.enter_context(self.filesystem.open_output_stream(path, compression=None))
            shutil.copyfileobj(source, target, _BLOCK)

    def _copy_to(self, target: IO[bytes], key: str) -> bool:
        """Copy a file of the storage to ``target``; return False if the key does not exist."""
        path = self._full_path(key)
        try:
            # By default, pyarrow decompresses files with names such as "x.gz".
            with _as_storage_error(self.uri), self.filesystem.open_input_stream(path, compression=None) as source:
                shutil.copyfileobj(source, target, _BLOCK)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True


def is_address(text: object) -> bool:
    """Return whether a text is the address of a storage and not a path."""
    return isinstance(text, str) and "://" in text


def storage_problem(uri: str) -> str | None:
    """Test a storage by writing a file and reading it back. Return a message if the test fails; otherwise None."""
    if problem := address_problem(uri):
        return problem
    probe = f".probe-{uuid.uuid4().hex[:12]}"
    content = uuid.uuid4().bytes
    try:
        storage = Storage(uri)
        storage.write(probe, content)
        read_back = storage.read(probe)
        storage.delete(probe)
    except StorageError as error:
        return f"--storage {error}"
    return None if read_back == content else f"--storage {uri}: a test file was read back with different content"


def address_problem(uri: str) -> str | None:
    """Return a message if an address is invalid; otherwise None. The storage is not accessed.

    The message contains no credentials.
    """
    try:
        url = urlsplit(uri)
        is_access_key = url.username is not None and url.scheme.startswith("s3")
        has_secret = url.password is not None or is_access_key or _has_secret_option(url.query)
    except ValueError as error:
        return f"--storage: the address is invalid: {error}"
    if has_secret:
        return (
            "--storage: the address contains credentials, which would be written to every file that contains the "
            "address; pass credentials through environment variables (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY) or "
            "through the machine's role"
        )
    if not url.netloc and url.scheme != "file":
        return f"--storage {uri}: the address has no bucket; expected a folder, or {_ADDRESS_FORMATS}"
    return None


def _has_secret_option(query: str) -> bool:
    return any(_SECRET.search(name) or "@" in value for name, value in parse_qsl(query))


@functools.cache
def _open_filesystem(uri: str) -> tuple[Any, str]:
    from pyarrow.fs import FileSystem

    uri_with_retry = uri
    if uri.startswith(("gs://", "gcs://")) and "retry_limit_seconds" not in uri:
        separator = "&" if "?" in uri else "?"
        uri_with_retry = f"{uri}{separator}{_GOOGLE_RETRY}"
    with _as_storage_error(uri):
        filesystem, path = FileSystem.from_uri(uri_with_retry)
    return filesystem, path


@contextlib.contextmanager
def _as_storage_error(uri: str) -> Iterator[None]:
    """Convert pyarrow's errors to a one-line :class:`StorageError`, except the FileNotFoundError for a missing file."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise
    except (OSError, ValueError, NotImplementedError) as error:  # the base classes of Arrow's errors
        text = first_line(error)
        if "AWS Error" in text:
            text = text[text.index("AWS Error") :]
        text = re.sub(r" \(Request ID: [^)]*\)", "", text)
        raise StorageError(f"{uri.partition('?')[0]}: {text}"[:300]) from error
