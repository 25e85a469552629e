"""A lease in object storage that one driver renews every ten seconds, so that no other driver runs the same sweep."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from trainables.storage import Storage, StorageError

FILE = "driver.json"
"""The lease, written by the running driver: its machine, its folder there, and the time of the last write."""
INTERVAL = 10.0
"""Seconds between two renewals."""
TIMEOUT = 2.5 * INTERVAL
"""Seconds without a renewal after which a driver is considered dead."""

logger = logging.getLogger(__name__)


class OtherDriver(RuntimeError):
    """Another driver runs the sweep; the message names that driver and the remedy."""

    exit_code = 2


class Lease:
    """Renews the lease of this driver until :meth:`end`.

    If the storage does not answer, the write is retried. If another driver also writes, a warning is logged once.
    """

    def __init__(self, storage: Storage, out: Path, *, interval: float = INTERVAL) -> None:
        """Take the lease. Raise StorageError if the storage does not answer."""
        self._storage, self._interval = storage, interval
        self._own = {"driver": uuid.uuid4().hex, **_place(out)}
        self._over = threading.Event()
        self._write()
        self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop renewing the lease. Other drivers still respect it for another ``TIMEOUT`` seconds."""
        self._over.set()
        self._thread.join(INTERVAL)

    def end(self) -> None:
        """Delete the lease, unless another driver has taken it.

        Raises:
            StorageError: the storage does not answer.
        """
        self.stop()
        current = _read(self._storage)
        if current is None or current["driver"] == self._own["driver"]:
            self._storage.delete(FILE)

    def _write(self) -> None:
        self._storage.write(FILE, json.dumps({**self._own, "at": time.time()}).encode())

    def _renew(self) -> None:
        is_warned = False
        while not self._over.wait(self._interval):
            with contextlib.suppress(StorageError, OSError):
                current = _read(self._storage)
                if current is not None and current["driver"] != self._own["driver"] and not is_warned:
                    logger.warning(
                        "%s and runs the same trials; stop one of the drivers", _format(self._storage, current)
                    )
                    is_warned = True
                self._write()


@contextlib.contextmanager
def hold_lease(storage: Storage | None, out: Path, *, say: Callable[[str], object]) -> Iterator[None]:
    """Hold the lease while the block runs. If ``storage`` is None, there is no lease.

    Raises:
        OtherDriver: another driver holds the lease (see :func:`other_driver`).
        StorageError: the storage does not answer at the start.
    """
    if storage is None:
        yield
        return
    if problem := other_driver(storage, out, say=say):
        raise OtherDriver(problem)
    lease = Lease(storage, out)
    try:
        yield
    finally:
        with contextlib.suppress(StorageError, OSError):
            lease.end()


def other_driver(
    storage: Storage, out: Path, *, say: Callable[[str], object], timeout: float | None = None
) -> str | None:
    """Return why the sweep cannot run in the folder ``out``, or None if no other driver runs it.

    If a lease exists, wait ``timeout`` seconds (default: :data:`TIMEOUT`) for its renewal, and announce the wait
    through ``say``. A lease that is not renewed is deleted. A lease that names this folder is ignored, because a lock
    protects the folder.

    Raises:
        StorageError: the storage does not answer.
    """
    before, timeout = _read(storage), TIMEOUT if timeout is None else timeout
    if before is None or (out.is_dir() and _place(out).items() <= before.items()):
        return None
    say(f"{_format(storage, before)}; waiting {timeout:.0f} s to see whether it still does")
    time.sleep(timeout)
    after = _read(storage)
    if after is None or after == before:
        storage.delete(FILE)
        return None
    return f"{_format(storage, after)}; stop that driver first, because two drivers would run each trial twice"


def _read(storage: Storage) -> dict[str, Any] | None:
    try:
        content = json.loads(storage.read(FILE) or b"")
        return {name: str(content[name]) for name in ("driver", "host", "boot", "out")} | {"at": float(content["at"])}
    except (ValueError, KeyError, TypeError):
        return None


def _place(out: Path) -> dict[str, str]:
    """Return the identity of a folder on this machine. The boot id distinguishes cloned machines with the same name."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    boot_id = boot.read_text(encoding="ascii").strip() if boot.is_file() else ""
    return {"host": socket.gethostname(), "boot": boot_id, "out": str(out.resolve())}


def _format(storage: Storage, lease: dict[str, Any]) -> str:
    seconds = max(0.0, time.time() - lease["at"])
    return f"a driver on {lease['host']} wrote to {storage.uri.partition('?')[0]} {seconds:.0f} s ago"
