"""Who is at a sweep in a storage: a driver says so every ten seconds, and one that finds another there keeps away."""

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
"""In the storage while a driver is at the sweep: on which machine it is, its folder there, and when it last wrote."""
BEAT = 10.0
"""Seconds between two."""
PATIENCE = 2.5 * BEAT
"""After so many seconds without one a driver is taken for dead."""

logger = logging.getLogger(__name__)


class OtherDriver(RuntimeError):
    """Another driver is at the sweep; the message says which, and what to do."""

    exit_code = 2


class Lease:
    """Says that this driver is at the sweep, from now on until :meth:`end`.

    A storage that does not answer meanwhile is asked again; another driver that says so, too, is warned of once.
    """

    def __init__(self, storage: Storage, out: Path, *, beat: float = BEAT) -> None:
        """Raises StorageError where the storage does not answer."""
        self._storage, self._beat = storage, beat
        self._said = {"driver": uuid.uuid4().hex, **_place(out)}
        self._over = threading.Event()
        self._say()
        self._thread = threading.Thread(target=self._go_on, name="lease", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Say nothing more; for others this driver is at the sweep for ``PATIENCE`` seconds yet."""
        self._over.set()
        self._thread.join(BEAT)

    def end(self) -> None:
        """Say that this driver is not at the sweep any more; what another one said there since stays.

        Raises:
            StorageError: it does not answer.
        """
        self.stop()
        there = _read(self._storage)
        if there is None or there["driver"] == self._said["driver"]:
            self._storage.delete(FILE)

    def _say(self) -> None:
        self._storage.write(FILE, json.dumps({**self._said, "at": time.time()}).encode())

    def _go_on(self) -> None:
        warned = False
        while not self._over.wait(self._beat):
            with contextlib.suppress(StorageError, OSError):
                there = _read(self._storage)
                if there is not None and there["driver"] != self._said["driver"] and not warned:
                    logger.warning("%s: end one of the two, they run the same trials", _in_words(self._storage, there))
                    warned = True
                self._say()


@contextlib.contextmanager
def hold_lease(storage: Storage | None, out: Path, *, say: Callable[[str], object]) -> Iterator[None]:
    """Inside, this driver says that it is at the sweep in the storage; nothing where there is none.

    Raises:
        OtherDriver: another driver is at it, see :func:`other_driver`.
        StorageError: it does not answer at the beginning.
    """
    if storage is None:
        yield
        return
    if reason := other_driver(storage, out, say=say):
        raise OtherDriver(reason)
    lease = Lease(storage, out)
    try:
        yield
    finally:
        with contextlib.suppress(StorageError, OSError):
            lease.end()


def other_driver(
    storage: Storage, out: Path, *, say: Callable[[str], object], patience: float | None = None
) -> str | None:
    """Why the sweep in a storage cannot go on in the folder ``out``: another driver is at it. None where none is.

    Where one never said that it has ended, waits ``patience`` seconds (``PATIENCE``) for its next word, and says so by
    ``say``; of one that is silent nothing stays. The driver of this very folder needs no waiting for: it has a lock.

    Raises:
        StorageError: the storage does not answer.
    """
    before, patience = _read(storage), PATIENCE if patience is None else patience
    if before is None or (out.is_dir() and _place(out).items() <= before.items()):
        return None
    say(f"{_in_words(storage, before)}: waiting {patience:.0f} s to see whether it still does")
    time.sleep(patience)
    after = _read(storage)
    if after is None or after == before:
        storage.delete(FILE)
        return None
    return f"{_in_words(storage, after)}: two that run one sweep would run its trials twice; end that one first"


def _read(storage: Storage) -> dict[str, Any] | None:
    try:
        found = json.loads(storage.read(FILE) or b"")
        said = {name: str(found[name]) for name in ("driver", "host", "boot", "out")}
        return {**said, "at": float(found["at"])}
    except (ValueError, KeyError, TypeError):
        return None


def _place(out: Path) -> dict[str, str]:
    """Which folder it is, of which machine: clones have one name, and start at different times."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    started = boot.read_text(encoding="ascii").strip() if boot.is_file() else ""
    return {"host": socket.gethostname(), "boot": started, "out": str(out.resolve())}


def _in_words(storage: Storage, said: dict[str, Any]) -> str:
    ago = max(0.0, time.time() - said["at"])
    return f"a driver on {said['host']} wrote to {storage.uri.partition('?')[0]} {ago:.0f} s ago"
