"""Find trials that already ran in a previous sweep, and copy their results."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from search_spaces.common.durable import link_or_copy, staged
from sweeper.store.event_log import read_state
from sweeper.store.events import Phase
from sweeper.store.state import SweepState, Trial
from trainables.run.reports import EpochReport, Outcome, Status

REUSABLE_STATUSES = (Status.FINISHED, Status.DIVERGED)
"""The statuses of reusable trials. Failed and stopped trials have no final result."""


@dataclass(frozen=True, slots=True)
class CachedTrial:
    """A finished or diverged trial of the sweep in the folder ``out``. Its result can be copied to another trial."""

    out: Path
    trial: Trial
    outcome: Outcome

    @property
    def origin(self) -> str:
        """The sweep folder and the trial id, as ``FOLDER/ID``."""
        return f"{self.out}/{self.trial.id}"

    def reports(self) -> Iterator[EpochReport]:
        """Yield the reports for the copy of the trial. The copies of the models are not in object storage."""
        return (replace(report, is_stored=False) for report in self.trial.reports)

    def copied_outcome(self, trial_id: str) -> Outcome:
        """Return the outcome for the copy of the trial. ``trial_id`` is the id of the copy."""
        checkpoint = self.outcome.checkpoint
        return replace(self.outcome, checkpoint=checkpoint and renamed(checkpoint, self.trial.id, trial_id))

    def copy_files(self, out: Path, trial_id: str) -> None:
        """Copy the trial's checkpoints and per-item scores to the sweep folder ``out``. Use hard links if possible."""
        old_id = self.trial.id
        paths = [*(self.out / "checkpoints").glob(f"{old_id}*"), self.out / "items" / f"{old_id}.json"]
        for path in paths:
            target = out / renamed(str(path.relative_to(self.out)), old_id, trial_id)
            if not path.exists() or target.exists():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            with staged(target) as staging:
                if path.is_dir():
                    shutil.copytree(path, staging, copy_function=link_or_copy, dirs_exist_ok=True)
                else:
                    link_or_copy(path, staging)


class ReusableTrials:
    """Finds a reusable trial of a previous sweep by its spec hash, the hash of all settings that can change the result.

    Among the previous sweeps, the last one in ``folders`` is preferred.
    """

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        self._trials: dict[str, CachedTrial] = {}
        for folder in folders:
            self._trials |= _by_hash(folder, read_state(folder))

    def find(self, spec_hash: str) -> CachedTrial | None:
        return self._trials.get(spec_hash)


def _by_hash(out: Path, state: SweepState) -> dict[str, CachedTrial]:
    """Return the reusable trials by spec hash. A trial that was trained is preferred to a copy of a trial."""
    trial_by_hash: dict[str, CachedTrial] = {}
    for trial in state.ended_of(Phase.SEARCH):
        spec_hash = str(trial.settings["spec_hash"])
        is_further_copy = bool(trial.reused_from) and spec_hash in trial_by_hash
        outcome = trial.outcome
        if outcome is not None and outcome.status in REUSABLE_STATUSES and not is_further_copy:
            trial_by_hash[spec_hash] = CachedTrial(out, trial, outcome)
    return trial_by_hash


def renamed(path: str, old_id: str, new_id: str) -> str:
    """Replace the trial id ``old_id`` by ``new_id`` in a path such as ``checkpoints/00007-epoch-3``."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/{new_id}{name.removeprefix(old_id)}"
