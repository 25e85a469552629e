"""Between a sweep's folder and its storage: what the driver writes is mirrored there, what workers put there fetched.

The keys in the storage are the paths in the folder, so that a copy of the one is the other. A thread does the carrying:
trials do not wait for it, and a storage that does not answer stops nothing that runs.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

from search_spaces.durable import Throttle, whole_lines
from sweeper.store.event_log import FILE as EVENTS
from sweeper.store.event_log import Follower
from sweeper.store.events import Event, Kind
from sweeper.store.lease import FILE as DRIVER
from sweeper.store.plugins import FOLDER
from sweeper.store.saved_states import run_state_keys
from sweeper.store.state import SweepState
from sweeper.store.tables import TABLES
from trainables.candidates import FRONT_FILE, candidate_folder
from trainables.run.failures import LOGS
from trainables.storage import Storage, StorageError

_LAST = (*TABLES, "optuna.log", EVENTS)
"""Uploaded last and in this order, so that the log in the storage is never newer than what its events build on."""
_PATIENCE = 2
"""After so many files that do not come no other is asked for."""
_PAUSE = 10.0
"""Seconds between two mirrors while no trial ends: less than between two states of a trial."""
_SILENCE = 30.0
"""Seconds after a refusal in which nothing is deleted: what is left is found again at the next start."""

logger = logging.getLogger(__name__)


class Syncer(Follower):
    """Carries a sweep's files; :meth:`close` ends it. What it could not carry, the syncer of the next resume does."""

    def __init__(self, out: Path, storage: Storage) -> None:
        """Looks which models the storage has.

        Raises:
            StorageError: it does not answer.
        """
        self.out = out
        self.storage = storage
        self._models = {f"checkpoints/{name}" for name in storage.names("checkpoints", folders=True)}
        self._awaited: dict[str, str] = {}  # what has still to come, with the trial that left it
        self._mirrored: dict[str, tuple[int, int]] = {}
        self._throttle = Throttle(share=0.2, pause=_PAUSE)
        self._orders: dict[tuple[str, str], Future[None]] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="syncer")
        self._refusal: str | None = None
        self._refused_at = 0.0
        self._outcome: str | None = None
        self._forgotten: set[str] = set()
        self._dirty = self._urgent = True  # from the first upload on, the address alone suffices to resume

    needs_disk = True

    def apply(self, event: Event, state: SweepState) -> None:
        """Note which models a worker has stored, and fetch the files of a trial that ended."""
        self._dirty = True
        if event.kind is Kind.TRIAL_REPORTED and event.payload["report"].get("stored"):
            self._models.add(candidate_folder(event.trial_id, float(event.payload["report"]["epoch"])))
        elif event.kind is Kind.TRIAL_ENDED:
            self.expect(state.trials[event.trial_id].row())
            self._urgent = True

    def flush(self, state: SweepState) -> None:
        """Upload the sweep's files: at once if a trial ended, otherwise from time to time."""
        if self._urgent or (self._dirty and self._throttle.is_due()):
            self._urgent = self._dirty = False
            self._order("mirror")

    @property
    def models(self) -> frozenset[str]:
        """The folders of all models in the storage."""
        return frozenset(self._models)

    def has(self, folder: str) -> bool:
        """Whether this model is in the storage."""
        return folder in self._models

    def share(self, trial_id: str) -> None:
        """Put what the folder has of a trial that was not run into the storage, too."""
        models = (f"checkpoints/{path.name}" for path in (self.out / "checkpoints").glob(f"{trial_id}*"))
        for key in (*models, *self._items(trial_id)):
            self._order("put", key)

    def expect(self, row: Mapping[str, object]) -> None:
        """A trial with this row is over: fetch what its worker left, as far as the folder does not have it."""
        trial_id, error = str(row["trial_id"]), str(row.get("error") or "")
        if checkpoint := row.get("checkpoint"):
            self._models.add(str(checkpoint))
        keys = [str(checkpoint)] if checkpoint else []
        keys += self._items(trial_id) if row.get("status") == "finished" else []
        keys += [log] if (log := f"{LOGS}/{trial_id}.txt") in error else []
        self.fetch(keys, trial_id)

    def fetch(self, keys: Iterable[str], trial_id: str = "") -> None:
        """Have these files and folders of the storage in the folder, soon."""
        for key in keys:
            if not (self.out / key).exists():
                self._awaited[key] = trial_id
                self._order("get", key)

    def is_awaited(self, trial_id: str) -> bool:
        """Whether something that the trial left has still to come."""
        return trial_id in [*self._awaited.values()]

    def publish_front(self) -> None:
        """The front's file has changed: the workers are to know."""
        self._order("put", FRONT_FILE)

    def remove(self, folder: str) -> None:
        """Delete a model from the storage."""
        if folder in self._models:
            self._models.discard(folder)
            self._order("delete", folder)

    def forget(self, trial_id: str) -> None:
        """Delete the saved states of a trial that is over."""
        if trial_id not in self._forgotten:
            self._order("forget", trial_id)

    def settle(self) -> list[str]:
        """Wait until all that was ordered is done, what failed before tried once more; returns what has not come.

        A storage that does not answer is not asked for each of many files.
        """
        self._cancel("get")
        wait([self._pool.submit(lambda: None)])  # what was ordered before it is done
        failures = 0
        for key in sorted(self._awaited):
            wait([self._pool.submit(self._carry, "get", key)])
            failures = failures + 1 if key in self._awaited else 0
            if failures == _PATIENCE:
                break
        return sorted(self._awaited)

    def close(self, timeout: float = 60.0) -> str | None:
        """Mirror the folder as it is now, and end; returns why that failed. A second call does nothing."""
        self._cancel()
        with contextlib.suppress(RuntimeError):  # closed before
            done, _ = wait([self._pool.submit(self._carry, "mirror", "")], timeout)
            self._outcome = self._refusal if done else f"it did not answer within {timeout:.0f} s"
        self._pool.shutdown(wait=False, cancel_futures=True)
        return self._outcome

    # What the thread does -------------------------------------------------------------------------------------------

    def _cancel(self, what: str | None = None) -> None:
        """Forget the orders that wait, or those of a kind."""
        with self._lock:
            for order in [order for order in self._orders if what in (None, order[0])]:
                self._orders.pop(order).cancel()

    def _order(self, what: str, key: str = "") -> None:
        """Do this once more, after what is being done; an order that waits already stands for this one."""
        with self._lock, contextlib.suppress(RuntimeError):  # the sweep has been concluded
            if (what, key) not in self._orders:
                self._orders[what, key] = self._pool.submit(self._carry, what, key)

    def _carry(self, what: str, key: str) -> None:
        with self._lock:
            self._orders.pop((what, key), None)
        actions: dict[str, Callable[[str], None]] = {
            "mirror": self._mirror,
            "get": self._get,
            "put": self._put,
            "delete": self.storage.delete,
            "forget": self._forget,
        }
        silent = self._refusal is not None and time.monotonic() - self._refused_at < _SILENCE
        if silent and (what in ("delete", "forget") or key == FRONT_FILE):
            return
        try:
            actions[what](key)
            self._refusal = None
        except (StorageError, OSError) as error:
            if self._refusal is None:
                logger.warning("%s; it is tried again", error)
            self._refusal, self._refused_at = str(error), time.monotonic()

    def _mirror(self, _: str) -> None:
        with self._throttle.saving():
            last = [self.out / name for name in _LAST]
            log = last[-1]
            stamps = {log: _stamp(log)} if log.is_file() else {}
            content_of = {log: self._content(log)}  # read first: all that its events build on is read later
            others = sorted(path for path in self.out.iterdir() if path.is_file() and path not in last)
            plugins = sorted(path for path in (self.out / FOLDER).glob("*") if path.is_file())
            for path in (*others, *plugins, *last):
                if path.name.startswith(".") or not path.is_file():
                    continue
                name, stamp = path.relative_to(self.out).as_posix(), stamps.get(path) or _stamp(path)
                if self._mirrored.get(name) == stamp:
                    continue
                content = content_of.get(path) or self._content(path)
                if content is not None:
                    self.storage.write(name, content)
                    self._mirrored[name] = stamp

    @staticmethod
    def _content(path: Path) -> bytes | None:
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        return whole_lines(content) if path.suffix in (".csv", ".log", ".jsonl") else content

    def _get(self, key: str) -> None:
        if not (self.out / key).exists() and not self.storage.get(key, self.out / key):
            if key in self._models:  # of a trial without items there are none
                logger.warning("the storage has no %s", key)
            self._models.discard(key)
        self._awaited.pop(key, None)

    def _put(self, key: str) -> None:
        with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
            self.storage.put(self.out / key, key)
            if (self.out / key).is_dir():
                self._models.add(key)

    def _forget(self, trial_id: str) -> None:
        for key in run_state_keys(self.storage, trial_id):
            self.storage.delete(key)
        self._forgotten.add(trial_id)

    def _items(self, trial_id: str) -> list[str]:
        return [f"items/{trial_id}.json"]


def _stamp(path: Path) -> tuple[int, int]:
    state = path.stat()
    return state.st_mtime_ns, state.st_size


def fetch_sweep(storage: Storage, out: Path) -> bool:
    """Have the mirrored tables of a sweep in a folder, where it can go on; False where the storage has no sweep.

    Raises:
        StorageError: it does not answer.
        OSError: the folder cannot be written.
    """
    names = [name for name in storage.names(folders=False) if name != DRIVER]
    if "sweep.json" not in names:
        return False
    plugins = [f"{FOLDER}/{name}" for name in storage.names(FOLDER, folders=False)]
    for name in (*plugins, *(name for name in names if name != "sweep.json"), "sweep.json"):  # by which it is a sweep
        storage.get(name, out / name)
    (out / "checkpoints").mkdir(exist_ok=True)
    return True
