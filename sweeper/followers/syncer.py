"""Synchronize a sweep's folder with object storage, in a background thread.

The thread uploads the files that the driver writes, and downloads the files that workers have uploaded. The key of a
file in the storage is the file's path relative to the sweep's folder.
"""

from __future__ import annotations

import contextlib
import logging
import stat
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from fnmatch import fnmatch
from pathlib import Path

from search_spaces.common.durable import Throttle, complete_lines
from sweeper.settings.sweep_settings import RUN_STATES
from sweeper.store.event_log import FILE as EVENTS
from sweeper.store.event_log import Follower
from sweeper.store.events import Event, TrialEnded, TrialReported
from sweeper.store.lease import FILE as DRIVER
from sweeper.store.plugins import FOLDER as PLUGINS
from sweeper.store.saved_states import remove_states
from sweeper.store.state import SweepState, Trial
from sweeper.store.tables import TABLES
from trainables.run.reports import Outcome, Status
from trainables.storage import Storage, StorageError
from trainables.worker.candidates import FRONT_FILE, candidate_folder
from trainables.worker.failures import LOGS

_ITEMS = ("items/target-*.json", "items/never-saw-*.json", "items/*-epoch-*.json")
"""The files with per-item metrics that the driver uploads: for the target, and for epochs measured after training."""
_DRIVERS_FILES = ("*", f"{PLUGINS}/*", *_ITEMS)
_UPLOADED_LAST = (*TABLES, "optuna.log")
"""The files that are uploaded after all other files except the event log, in this order."""
_MAX_ERRORS = 2
"""After this many consecutive errors, the remaining transfers wait."""
_PAUSE = 10.0
"""The minimum seconds between two uploads; must be less than the time between two saved states of a trial."""
_RETRY = 30.0
"""The seconds from an error to the next transfers, because a request to a storage that does not answer takes long."""

logger = logging.getLogger(__name__)
_Transfer = Callable[[str], None]


class Syncer(Follower):
    """Transfers files to and from object storage until :meth:`close`. The fields track queued and stored files."""

    def __init__(self, out: Path, storage: Storage) -> None:
        """Read which models the storage already contains."""
        self._out = out
        self._storage = storage
        self._models = {f"checkpoints/{name}" for name in storage.names("checkpoints", folders=True)}
        self._downloads: dict[str, str] = {}  # files to download, mapped to the ids of their trials
        self._uploaded: dict[str, tuple[int, int]] = {}  # the modification times and sizes of uploaded files
        self._throttle = Throttle(share=0.2, pause=_PAUSE)
        self._queued: dict[tuple[_Transfer, str], None] = {}  # the transfers to make, in this order
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="syncer")
        self._error: str | None = None
        self._error_at = 0.0
        self._result: str | None = None
        self._dirty = self._urgent = True  # after the first upload, the sweep can be resumed from the storage alone

    def apply(self, event: Event, state: SweepState) -> None:
        """Update the set of models in the storage. When a trial ends, queue the transfers of its files."""
        self._dirty = True
        if isinstance(event, TrialReported) and event.report.is_stored:
            self._models.add(candidate_folder(event.trial_id, event.report.epoch))
        elif isinstance(event, TrialEnded):
            self._transfer_files(state.trials[event.trial_id], event.outcome)
            self._urgent = True

    def flush(self, state: SweepState) -> None:
        """Queue an upload of changed files: always after the end of a trial, otherwise at most every 10 s."""
        if self._urgent or (self._dirty and self._throttle.is_due()):
            self._urgent = self._dirty = False
            self._queue(self._upload)

    def catch_up(self, state: SweepState) -> None:
        """Queue the transfers of ended trials' files that a previous driver process did not finish."""
        for trial in state.ended_trials:
            if trial.outcome is not None:
                self._transfer_files(trial, trial.outcome)

    @property
    def models(self) -> frozenset[str]:
        """The folders of the models in the storage."""
        return frozenset(self._models)

    def fetch(self, keys: Iterable[str], trial_id: str = "") -> None:
        """Queue downloads of those files and folders in ``keys`` that the sweep's folder lacks."""
        for key in keys:
            if not (self._out / key).exists():
                self._downloads[key] = trial_id
                self._queue(self._get, key)

    def is_awaited(self, trial_id: str) -> bool:
        """Return whether files of the trial must still be downloaded."""
        return trial_id in list(self._downloads.values())  # a copy, because another thread removes downloads

    def publish_front(self) -> None:
        """Queue an upload of the file from which workers read the Pareto front."""
        self._queue(self._put, FRONT_FILE)

    def remove(self, folder: str) -> None:
        """Queue the deletion of a model in the storage."""
        if folder in self._models:
            self._models.discard(folder)
            self._queue(self._storage.delete, folder)

    def delete_states(self, trial_id: str) -> None:
        """Queue the deletion of a trial's saved states in the storage."""
        self._queue(self._delete_states, trial_id)

    def finish_transfers(self) -> list[str]:
        """Make all queued transfers. Return the files that could not be downloaded."""
        wait([self._pool.submit(self._transfer_waiting, now=True)])
        return sorted(self._downloads)

    def close(self, timeout: float = 60.0) -> str | None:
        """Finish the uploads and stop. Return the error if an upload failed. A second call uploads nothing."""
        with self._lock:
            uploads = {(transfer, key): None for transfer, key in self._queued if transfer == self._put}
            self._queued = uploads | {(self._upload, ""): None}
        with contextlib.suppress(RuntimeError):  # the pool is already closed
            done, _ = wait([self._pool.submit(self._transfer_waiting, now=True)], timeout)
            self._result = self._error if done else f"no answer within {timeout:.0f} s"
        self._pool.shutdown(wait=False, cancel_futures=True)
        return self._result

    def _transfer_files(self, trial: Trial, outcome: Outcome) -> None:
        """Queue downloads of an ended trial's files.

        If the trial's files were copied from another trial, also queue uploads of the copies.
        """
        items = f"items/{trial.id}.json"
        if trial.reused_from:
            models = {f"checkpoints/{path.name}" for path in (self._out / "checkpoints").glob(f"{trial.id}*")}
            for key in (*sorted(models - self._models), items):
                self._queue(self._put, key)
        keys = []
        if checkpoint := outcome.checkpoint:
            self._models.add(checkpoint)
            keys.append(checkpoint)
        if outcome.status is Status.FINISHED:
            keys.append(items)
        log = f"{LOGS}/{trial.id}.txt"
        if log in (outcome.error or ""):
            keys.append(log)
        self.fetch(keys, trial.id)

    def _queue(self, transfer: _Transfer, key: str = "") -> None:
        with self._lock, contextlib.suppress(RuntimeError):  # the pool is closed
            self._queued[transfer, key] = None
            self._pool.submit(self._transfer_waiting)

    # In the thread --------------------------------------------------------------------------------------------------

    def _transfer_waiting(self, *, now: bool = False) -> None:
        """Make the queued transfers. Failed transfers are queued again.

        For 30 s after an error, make no transfers unless ``now`` is true.
        """
        if not now and self._error is not None and time.monotonic() - self._error_at < _RETRY:
            return
        failed: dict[tuple[_Transfer, str], None] = {}
        error = None
        consecutive_errors = 0
        while consecutive_errors < _MAX_ERRORS and (item := self._next()) is not None:
            transfer, key = item
            try:
                transfer(key)
                consecutive_errors = 0
            except (StorageError, OSError) as problem:
                error = str(problem)
                consecutive_errors += 1
                failed[item] = None
        with self._lock:
            self._queued |= failed
        if error is not None and self._error is None:
            logger.warning("%s; the transfer to or from object storage is tried again", error)
        self._error = error
        self._error_at = time.monotonic()

    def _next(self) -> tuple[_Transfer, str] | None:
        with self._lock:
            item = next(iter(self._queued), None)
            if item is not None:
                del self._queued[item]
        return item

    def _upload(self, _: str) -> None:
        with self._throttle.saving():
            # The event log is read first and stored last, so the stored log refers only to files that are stored.
            log = self._read_change(EVENTS)
            paths = {path for pattern in _DRIVERS_FILES for path in self._out.glob(pattern)}
            names = {path.relative_to(self._out).as_posix() for path in paths if path.suffix != ".lock"}
            first_names = sorted(names.difference(_UPLOADED_LAST, [EVENTS]))
            for name in [*first_names, *_UPLOADED_LAST]:
                if not name.startswith("."):
                    self._store(name, self._read_change(name))
            self._store(EVENTS, log)

    def _read_change(self, name: str) -> tuple[tuple[int, int], bytes] | None:
        """Return a file's modification time, size and content, or None if the file is unchanged since its upload."""
        path = self._out / name
        try:
            file_stat = path.stat()
            stamp = (file_stat.st_mtime_ns, file_stat.st_size)
            if not stat.S_ISREG(file_stat.st_mode) or self._uploaded.get(name) == stamp:
                return None
            content = path.read_bytes()
        except FileNotFoundError:  # deleted in the meantime
            return None
        if path.suffix in (".csv", ".log", ".jsonl"):
            content = complete_lines(content)
        return stamp, content

    def _store(self, name: str, change: tuple[tuple[int, int], bytes] | None) -> None:
        if change is not None:
            stamp, content = change
            self._storage.write(name, content)
            self._uploaded[name] = stamp

    def _get(self, key: str) -> None:
        if not (self._out / key).exists() and not self._storage.get(key, self._out / key):
            if key in self._models:  # not for an items file, because some trials have none
                logger.warning("%s is missing in object storage", key)
            self._models.discard(key)
        self._downloads.pop(key, None)

    def _put(self, key: str) -> None:
        with contextlib.suppress(FileNotFoundError):  # deleted in the meantime
            self._storage.put(self._out / key, key)
            if (self._out / key).is_dir():
                self._models.add(key)

    def _delete_states(self, trial_id: str) -> None:
        remove_states(self._storage.subfolder(RUN_STATES), trial_id)


def fetch_sweep(storage: Storage, out: Path) -> bool:
    """Download the files that a resumed sweep needs. Return False if the storage has no sweep.

    Raises:
        StorageError: the storage does not answer.
        OSError: a file cannot be written to ``out``.
    """
    names = [name for name in storage.names(folders=False) if name != DRIVER]
    if "sweep.json" not in names:
        return False
    names += [f"{PLUGINS}/{name}" for name in storage.names(PLUGINS, folders=False)]
    items = [f"items/{name}" for name in storage.names("items", folders=False)]
    names += [name for name in items if any(fnmatch(name, pattern) for pattern in _ITEMS)]
    # A folder with sweep.json counts as a sweep, so sweep.json is downloaded last.
    for name in sorted(names, key=lambda name: name == "sweep.json"):
        storage.get(name, out / name)
    (out / "checkpoints").mkdir(exist_ok=True)
    return True
