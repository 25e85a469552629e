"""Find trials that already ran in this or a previous sweep, and copy their results instead of running them again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from search_spaces.durable import link_or_copy, staged
from sweeper.store.import_tables import read_state
from sweeper.store.state import SweepState, Trial
from trainables.run.reports import Status

RAN_TO_ITS_END = (Status.FINISHED, Status.DIVERGED)
"""The statuses of reusable trials. A failed or stopped trial runs again, because its final result is unknown."""


@dataclass(frozen=True, slots=True)
class CachedTrial:
    """A finished or diverged trial of the sweep in the folder ``out``."""

    out: Path
    trial: Trial

    @property
    def origin(self) -> str:
        """The folder and the id of the trial, as ``FOLDER/ID``."""
        return f"{self.out}/{self.trial.id}"

    def reports(self) -> Iterator[Mapping[str, Any]]:
        """Yield the trial's reports without the key ``stored``, because the storage lacks the trial's models."""
        return ({name: value for name, value in report.items() if name != "stored"} for report in self.trial.reports)

    def outcome(self, trial_id: str) -> dict[str, Any]:
        """Return the outcome of this trial, adapted to the new trial id ``trial_id``."""
        outcome = {**self.trial.outcome, "reused_from": self.origin}
        if checkpoint := outcome.get("checkpoint"):
            outcome["checkpoint"] = renamed(str(checkpoint), self.trial.id, trial_id)
        return outcome

    def copy_files(self, out: Path, trial_id: str) -> None:
        """Copy the trial's checkpoints and items to another sweep under a new id, as hard links if possible."""
        old = self.trial.id
        found = [*(self.out / "checkpoints").glob(f"{old}*"), self.out / "items" / f"{old}.json"]
        for path in found:
            target = out / renamed(str(path.relative_to(self.out)), old, trial_id)
            if not path.exists() or target.exists():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            with staged(target) as staging:
                if path.is_dir():
                    shutil.copytree(path, staging, copy_function=link_or_copy, dirs_exist_ok=True)
                else:
                    link_or_copy(path, staging)


class ReusableTrials:
    """The trials that can be reused, by content hash.

    If several previous sweeps have trials with the same hash, the trial in the last folder is used. If ``own`` is true,
    trials of this sweep are also reused, because the sampler may propose a configuration twice.
    """

    def __init__(self, out: Path, previous: Sequence[Path] = (), *, own: bool = True) -> None:
        self._out = out
        self._own = own
        self._previous: dict[str, CachedTrial] = {}
        for folder in previous:
            self._previous |= _by_hash(folder, read_state(folder))

    def find(self, spec_hash: str, state: SweepState) -> CachedTrial | None:
        """Return a trial with this content hash that ran to its end, or None."""
        if (found := self._previous.get(spec_hash)) is not None or not self._own:
            return found
        return _by_hash(self._out, state).get(spec_hash)


def _by_hash(out: Path, state: SweepState) -> dict[str, CachedTrial]:
    """Return the finished and diverged trials by content hash. Trained trials are preferred to copied trials."""
    found: dict[str, CachedTrial] = {}
    for trial in state.ended_trials:
        spec_hash = str(trial.settings["spec_hash"])
        if trial.outcome["status"] in RAN_TO_ITS_END and not (trial.reused_from and spec_hash in found):
            found[spec_hash] = CachedTrial(out, trial)
    return found


def renamed(path: str, old: str, new: str) -> str:
    """Return a path such as ``checkpoints/00007-epoch-3`` with the trial id ``old`` replaced by ``new``."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/{new}{name.removeprefix(old)}"
