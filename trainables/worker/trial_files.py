"""Write the files of trials to the sweep's folder, or to its storage if the workers do not share the folder."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from search_spaces.common.durable import remove_atomically
from search_spaces.common.front import Point
from trainables.models.checkpoints import save_model
from trainables.saved_state import STATE_FILE
from trainables.scoring.item_log import write_item_log
from trainables.storage import Storage, StorageError
from trainables.worker.candidates import FRONT_FILE, read_front
from trainables.worker.failures import one_line, write_log

if TYPE_CHECKING:
    from trainables.run.run import UnlearningRun

_RESTORED = "restored"


class TrialFiles:
    """Reads and writes the files of a worker's trials.

    Methods raise OSError if the disk cannot be used, and StorageError if the storage cannot be used.

    Attributes:
        out: the sweep's folder or, with a storage, a temporary folder.
        storage: the storage to which the files are moved after writing; None if all workers share the sweep's folder.
    """

    def __init__(self, out: str, storage: Storage | None) -> None:
        self.storage = storage
        self._scratch = None if storage is None else tempfile.TemporaryDirectory(prefix="sweeper-")
        self.out = Path(out if self._scratch is None else self._scratch.name)

    def close(self) -> None:
        if self._scratch is not None:
            self._scratch.cleanup()

    def write_model(self, run: UnlearningRun, name: str) -> None:
        save_model(run.model, run.workspace.processor, self.out / name)
        self._send(name)

    def write_items(self, run: UnlearningRun, trial_id: str) -> None:
        """Write the per-item values of a run's metrics, if any were measured."""
        if run.items:
            name = f"items/{trial_id}.json"
            write_item_log(self.out / name, run.items)
            self._send(name)

    def write_error(self, error: Exception, trial_id: str) -> str:
        """Write the traceback and the worker's output to a log. Return the error as one line that names the log."""
        reason = one_line(f"{type(error).__name__}: {error}".strip().splitlines()[0])
        try:
            # Ray redirects the output of a worker to files.
            output_files = [Path(f"/proc/self/fd/{number}").resolve() for number in (1, 2)]
            name = write_log(self.out, trial_id, traceback.format_exc(), *output_files)
            self._send(name)
        except (OSError, StorageError):
            return reason
        return f"{reason} (see {name})"

    def front(self) -> list[Point]:
        """Return the points of the epochs whose models are kept, from the file that the driver writes."""
        if self.storage is not None:
            with contextlib.suppress(StorageError, OSError):
                self.storage.get(FRONT_FILE, self.out / FRONT_FILE)
        return read_front(self.out)

    def keep_state(self, checkpoint: str) -> str:
        """Return a folder that contains the saved state in ``checkpoint``.

        With a storage, the state is copied to a temporary folder, because Ray deletes ``checkpoint`` afterwards.
        """
        if self.storage is None:
            return checkpoint
        shutil.copytree(checkpoint, self.out / _RESTORED, dirs_exist_ok=True)
        return str(self.out / _RESTORED)

    def fetch_state(self, folder: str) -> Path:
        """Return a local folder with a saved state. ``folder`` is a local path, or a key in the storage."""
        if self.storage is None or Path(folder).is_absolute():
            return Path(folder)
        self.storage.get(f"{folder}/{STATE_FILE}", self.out / _RESTORED / STATE_FILE)
        return self.out / _RESTORED

    def discard_state(self) -> None:
        """Delete the local copy of the previous trial's state, if it exists."""
        if self.storage is not None:
            remove_atomically(self.out / _RESTORED)

    def _send(self, name: str) -> None:
        if self.storage is not None:
            try:
                self.storage.put(self.out / name, name)
            finally:
                remove_atomically(self.out / name)
