"""A lease in object storage that prevents two drivers from running the same sweep."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from trainables.storage import Storage, StorageError

FILE = "driver.json"
"""The file of the lease in the storage."""
INTERVAL = 10.0
"""Seconds between two renewals."""
TIMEOUT = 2.5 * INTERVAL
"""Seconds without a renewal after which a driver is considered dead."""

logger = logging.getLogger(__name__)


class OtherDriver(RuntimeError):
    """Another driver runs the sweep; the message names the driver and the remedy."""

    exit_code = 2


@contextlib.contextmanager
def hold_lease(
    storage: Storage | None, out: Path, *, say: Callable[[str], object], interval: float = INTERVAL
) -> Iterator[None]:
    """Hold the lease while the block runs, and renew the lease every ``interval`` seconds.

    If ``storage`` is None, no lease is taken. A failed renewal is retried. If another driver overwrites the lease, a
    warning is logged once, and the renewals continue.

    Raises:
        OtherDriver: another driver holds the lease (see :func:`other_driver`).
        StorageError: the storage does not answer when the block starts.
    """
    if storage is None:
        yield
        return
    if problem := other_driver(storage, out, say=say):
        raise OtherDriver(problem)
    lease = {"driver": uuid.uuid4().hex, **_folder_identity(out)}
    _write(storage, lease)
    stop = threading.Event()
    thread = threading.Thread(target=_renew, args=(storage, lease, stop, interval), name="lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(interval)
        with contextlib.suppress(StorageError, OSError):
            if _other_lease(storage, lease) is None:
                storage.delete(FILE)


def _renew(storage: Storage, lease: Mapping[str, str], stop: threading.Event, interval: float) -> None:
    is_warned = False
    while not stop.wait(interval):
        with contextlib.suppress(StorageError, OSError):
            other = _other_lease(storage, lease)
            if other is not None and not is_warned:
                logger.warning("%s and runs the same trials; stop one of the drivers", _format(storage, other))
                is_warned = True
            _write(storage, lease)


def _write(storage: Storage, lease: Mapping[str, str]) -> None:
    storage.write(FILE, json.dumps({**lease, "at": time.time()}).encode())


def _other_lease(storage: Storage, lease: Mapping[str, str]) -> dict[str, Any] | None:
    current = _read(storage)
    is_other = current is not None and current["driver"] != lease["driver"]
    return current if is_other else None


def other_driver(storage: Storage, out: Path, *, say: Callable[[str], object]) -> str | None:
    """Return an error message if another driver runs the sweep in ``storage``, otherwise None.

    If a lease exists, wait :data:`TIMEOUT` seconds for a renewal. A lease without a renewal is deleted. A lease for the
    folder ``out`` on this machine is ignored, because the folder has its own lock.

    Raises:
        StorageError: the storage does not answer.
    """
    lease = _read(storage)
    if lease is None:
        return None
    is_for_this_folder = out.is_dir() and _folder_identity(out).items() <= lease.items()
    if is_for_this_folder:
        return None
    say(f"{_format(storage, lease)}; waiting {TIMEOUT:.0f} s to see whether that driver is still running")
    time.sleep(TIMEOUT)
    later_lease = _read(storage)
    if later_lease is None or later_lease == lease:
        storage.delete(FILE)
        return None
    return f"{_format(storage, later_lease)}; stop that driver first, because two drivers would run each trial twice"


def _read(storage: Storage) -> dict[str, Any] | None:
    try:
        content = json.loads(storage.read(FILE) or b"")
        return {name: str(content[name]) for name in ("driver", "host", "boot", "out")} | {"at": float(content["at"])}
    except (ValueError, KeyError, TypeError):
        return None


def _folder_identity(out: Path) -> dict[str, str]:
    """Return what identifies a folder across machines: host name, boot id and path.

    The boot id distinguishes cloned machines with one host name.
    """
    boot = Path("/proc/sys/kernel/random/boot_id")
    boot_id = boot.read_text(encoding="ascii").strip() if boot.is_file() else ""
    return {"host": socket.gethostname(), "boot": boot_id, "out": str(out.resolve())}


def _format(storage: Storage, lease: dict[str, Any]) -> str:
    seconds = max(0.0, time.time() - lease["at"])
    return f"a driver on {lease['host']} wrote to {storage.uri.partition('?')[0]} {seconds:.0f} s ago"
