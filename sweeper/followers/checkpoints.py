"""The front of a running sweep over the epochs of all trials, and the checkpoints of just these on disk.

The workers save, the driver alone deletes: an epoch's folder goes as soon as a reported epoch of any trial dominates
it. The last epoch of a finished trial is no concern of this file: its model is in ``checkpoints/ID`` and stays.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

from search_spaces.durable import is_leftover, remove_whole
from sweeper.followers.syncer import Syncer
from trainables.candidates import Costs, Goals, candidate_folder, costs_of, dominates, write_front

logger = logging.getLogger(__name__)


class CheckpointManager:
    """Which candidates are on the front: of equals all, as each is a model of its own.

    With a ``syncer`` the models, and the file the workers read, are in its storage, too.
    """

    def __init__(self, out: Path, goals: Goals, *, syncer: Syncer | None = None) -> None:
        self._out = out
        self._courier = syncer
        self._goals = goals
        self._front: dict[tuple[str, float], Costs] = {}

    def __len__(self) -> int:
        return len(self._front)

    def __contains__(self, candidate: tuple[str, float]) -> bool:
        return candidate in self._front

    def take_up(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Begin with the rows of candidates.csv, and remove every epoch's folder that is not on their front.

        No worker may be running: what one is just saving would be taken for a killed one's.
        """
        self._front.clear()
        for row in rows:
            self._place((str(row["trial_id"]), float(str(row["epoch"]))), row)
        self._publish()
        self.remove_others()

    def add(self, trial_id: str, report: Mapping[str, object]) -> None:
        """An epoch was evaluated, and maybe saved. Telling one twice changes nothing."""
        candidate = trial_id, float(str(report["epoch"]))
        before = dict(self._front)
        self._place(candidate, report)
        if self._front != before:
            self._publish()
        for gone in {candidate, *before} - self._front.keys():
            self._remove(self._out / candidate_folder(*gone))

    @property
    def folders(self) -> frozenset[str]:
        """Where the models of those on the front are, as far as they were kept, relative to the sweep's folder."""
        return frozenset(candidate_folder(*candidate) for candidate in self._front)

    def checkpoint(self, trial_id: str, epoch: float) -> str:
        """The folder of an epoch's model, relative to the sweep's; "" where there is none."""
        folder = candidate_folder(trial_id, epoch)
        is_there = (self._out / folder).is_dir() or (self._courier is not None and self._courier.has(folder))
        return folder if is_there else ""

    def remove_others(self) -> None:
        """Remove the epochs' folders that are not on the front, and what killed processes left; not beside workers."""
        kept = {self._out / candidate_folder(*candidate) for candidate in self._front}
        for path in (self._out / "checkpoints").glob("*-epoch-*"):
            if path not in kept and not path.name.startswith("."):
                self._remove(path)
        for path in (self._out / "checkpoints").glob(".*-epoch-*"):
            if is_leftover(path):
                self._remove(path)
        if self._courier is not None:
            for folder in self._courier.models - self.folders:
                if "-epoch-" in folder:
                    self._courier.remove(folder)

    def _place(self, candidate: tuple[str, float], row: Mapping[str, object]) -> None:
        costs = costs_of(row, self._goals)
        self._front.pop(candidate, None)
        if costs is None or any(dominates(other, costs) for other in self._front.values()):
            return
        self._front = {key: other for key, other in self._front.items() if not dominates(costs, other)}
        self._front[candidate] = costs

    def _publish(self) -> None:
        try:
            write_front(self._out, self._front.values())
        except OSError as error:  # the workers then save more than they need to
            logger.warning("cannot write to %s: %s", self._out, error)
        if self._courier is not None:
            self._courier.publish_front()

    def _remove(self, path: Path) -> None:
        if self._courier is not None:
            self._courier.remove(f"checkpoints/{path.name}")
        with contextlib.suppress(OSError):  # it is found again at the end, or at the next start
            remove_whole(path)
