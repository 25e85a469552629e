"""Trials that have already run, in this sweep or a previous one, so that an identical trial is reused and not run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from search_spaces.durable import link_or_copy, staged
from search_spaces.yaml_nodes import plain_scalar
from sweeper.store.columns import PARAMETERS
from sweeper.store.tables import ResultTables
from trainables.run.reports import Status

Row = Mapping[str, str]
RAN_TO_ITS_END = (Status.FINISHED, Status.DIVERGED)
"""A failed or stopped trial is run again, because its outcome is unknown."""
_TEXTS = ("status", "checkpoint", "error", "worker")


@dataclass(frozen=True, slots=True)
class CachedTrial:
    """A trial of the sweep in ``out``, with its rows in every table."""

    out: Path
    row: Row
    history: tuple[Row, ...]
    auto_lr: tuple[Row, ...]
    candidates: tuple[Row, ...]

    @property
    def origin(self) -> str:
        """The folder and the trial id."""
        return f"{self.out}/{self.row['trial_id']}"

    def reports(self) -> Iterator[dict[str, Any]]:
        """Yield the trial's reports, one per epoch, in the form in which a worker sends them."""
        updates = rows_by_trial(self.auto_lr, key="step")
        candidates = {row["step"] for row in self.candidates}
        diverged = self.history[-1]["step"] if self.history and self.row["status"] == Status.DIVERGED else None
        for row in self.history:
            step = row["step"]
            report = _values(row) | {"step": int(step), "epoch": float(row["epoch"])}
            report["auto_lr"] = [_values(update) for update in updates.get(step, ())]
            # Without candidates.csv (only last epochs are candidates) every epoch with losses was evaluated.
            evaluated = step in candidates if candidates else step != diverged and bool(row.get("forget_loss"))
            yield report | {"evaluated": evaluated}

    def outcome(self, trial_id: str) -> dict[str, object]:
        """Return the trial's outcome as the row of trial ``trial_id`` of another sweep has it."""
        outcome: dict[str, object] = {
            name: text if name in _TEXTS else plain_scalar(text)
            for name, text in self.row.items()
            if text and name not in ("trial_id", "spec_hash", *PARAMETERS)
        }
        if checkpoint := self.row.get("checkpoint"):
            outcome["checkpoint"] = self._renamed(checkpoint, trial_id)
        return outcome | {"reused_from": self.origin}

    def copy_files(self, out: Path, trial_id: str) -> None:
        """Copy the trial's checkpoints and items to another sweep's folder, as hard links if possible."""
        checkpoints = {row["checkpoint"] for row in (self.row, *self.candidates) if row.get("checkpoint")}
        for name in [*checkpoints, f"items/{self.row['trial_id']}.json"]:
            source, destination = self.out / name, out / self._renamed(name, trial_id)
            if source.exists() and not destination.exists():
                destination.parent.mkdir(parents=True, exist_ok=True)
                with staged(destination) as staging:
                    if source.is_dir():
                        shutil.copytree(source, staging, copy_function=link_or_copy, dirs_exist_ok=True)
                    else:
                        link_or_copy(source, staging)

    def _renamed(self, path: str, trial_id: str) -> str:
        """Return ``checkpoints/00007-epoch-3`` of trial 00007 with another trial's id."""
        folder, _, name = path.rpartition("/")
        return f"{folder}/{trial_id}{name.removeprefix(self.row['trial_id'])}"


def cached_trials(folders: Sequence[Path]) -> dict[str, CachedTrial]:
    """Return the finished and diverged trials of sweeps by content hash.

    If several trials have the same hash, the last folder's is used, and in it the trial that was trained.
    """
    found: dict[str, CachedTrial] = {}
    for folder in folders:
        tables = ResultTables(folder)
        logs = [rows_by_trial(log.read()) for log in (tables.history, tables.auto_lr, tables.candidates)]
        for row in tables.trials.read():
            if row["status"] in RAN_TO_ITS_END and not (row.get("reused_from") and row["spec_hash"] in found):
                history, auto_lr, candidates = (tuple(log.get(row["trial_id"], ())) for log in logs)
                found[row["spec_hash"]] = CachedTrial(folder, row, history, auto_lr, candidates)
    return found


def rows_by_trial(rows: Sequence[Row], key: str = "trial_id") -> dict[str, list[Row]]:
    """Return the rows of a table grouped by trial."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row[key], []).append(row)
    return groups


def _values(row: Row) -> dict[str, Any]:
    return {name: plain_scalar(text) for name, text in row.items() if text and name != "trial_id"}
