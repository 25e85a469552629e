"""Keep the models of the epochs on the Pareto front, and delete the models of dominated epochs.

Workers save models, and only the driver deletes models. The model of an epoch is deleted as soon as another epoch
dominates the epoch. A finished trial always keeps the model of its last epoch, in ``checkpoints/TRIAL_ID``.
"""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path

from search_spaces.common.durable import remove_atomically
from sweeper.followers.syncer import Syncer
from sweeper.store.event_log import Follower
from sweeper.store.events import Event, TrialEnded, TrialReported, TrialRequeued
from sweeper.store.saved_states import remove_states
from sweeper.store.state import SweepState, Trial
from trainables.run.reports import EpochReport
from trainables.storage import Storage, StorageError
from trainables.worker.candidates import Costs, Goals, candidate_folder, dominates, epoch_costs, write_front

Candidate = tuple[str, float]
"""A trial id and an epoch."""
logger = logging.getLogger(__name__)


class CheckpointManager(Follower):
    """Maintains the Pareto front of all evaluated epochs, and deletes the models of dominated epochs.

    Epochs with equal objective values are all on the front. ``goals`` contains a pair (column, direction) for each
    objective. If ``goals`` is empty, the front stays empty. ``states`` is the storage of the saved states from which
    interrupted trials continue.
    """

    def __init__(self, out: Path, goals: Goals, *, states: Storage, syncer: Syncer | None = None) -> None:
        self._out = out
        self._goals = goals
        self._states = states
        self._syncer = syncer
        self._front: dict[Candidate, Costs] = {}
        self._written_front: dict[Candidate, Costs] | None = None
        self._dominated: set[Candidate] = set()
        self._ended: set[str] = set()

    def __len__(self) -> int:
        return len(self._front)

    @property
    def folders(self) -> frozenset[str]:
        """The folders of the models on the front, relative to the sweep's folder."""
        return frozenset(candidate_folder(*candidate) for candidate in self._front)

    def find(self, trial: Trial, report: EpochReport) -> str:
        """Return the folder of an epoch's model relative to the sweep's folder, or "" if there is no model."""
        if not self._goals:
            return ""
        checkpoint = None if trial.outcome is None else trial.outcome.checkpoint
        if checkpoint and report.step == trial.last_step and self._has_model(checkpoint):
            return checkpoint
        folder = candidate_folder(trial.id, report.epoch)
        return folder if self._has_model(folder) else ""

    def catch_up(self, state: SweepState) -> None:
        """Compute the front, and delete the models and saved states that a previous driver process did not delete."""
        self._compute_front(state)
        self._ended = {trial.id for trial in state.ended_trials if trial.has_result}
        self.reconcile()

    def apply(self, event: Event, state: SweepState) -> None:
        """Update the front, and record which models and saved states can be deleted."""
        if isinstance(event, TrialRequeued):
            self._compute_front(state)
            self._ended.discard(event.trial_id)
        elif isinstance(event, TrialReported) and event.report.evaluated:
            self._update_front(event.trial_id, event.report)
        elif isinstance(event, TrialEnded) and state.trials[event.trial_id].has_result:
            self._ended.add(event.trial_id)

    def flush(self, state: SweepState) -> None:
        """Write the front to a file. Workers read this file to decide whether to save a model.

        Delete the models of dominated epochs, and the saved states of ended trials.
        """
        if self._goals and self._written_front != self._front:
            self._written_front = dict(self._front)
            try:
                write_front(self._out, self._front.values())
            except OSError as error:  # workers then also save models that are dominated
                logger.warning("cannot write to %s: %s", self._out, error)
            if self._syncer is not None:
                self._syncer.publish_front()
        for candidate in self._dominated - self._front.keys():
            self._remove(candidate_folder(*candidate))
        self._dominated.clear()
        for trial_id in self._ended:
            if self._syncer is not None:
                self._syncer.delete_states(trial_id)
            else:
                with contextlib.suppress(StorageError, OSError):
                    remove_states(self._states, trial_id)
        self._ended.clear()

    def reconcile(self) -> None:
        """Delete all models of epochs that are not on the front, including models that killed processes left behind.

        Must not be called while a worker is running.
        """
        if not self._goals:
            return
        for path in (self._out / "checkpoints").glob("*-epoch-*"):
            folder = f"checkpoints/{path.name}"
            if folder not in self.folders:
                self._remove(folder)
        if self._syncer is not None:
            for folder in self._syncer.models - self.folders:
                if "-epoch-" in folder:
                    self._syncer.remove(folder)

    def fetch_models(self) -> list[str]:
        """Download the models on the front from object storage. Return the files that could not be downloaded.

        Must not be called while a worker is running.
        """
        if self._syncer is None:
            return []
        self.reconcile()
        self._syncer.fetch(sorted(self.folders & self._syncer.models))
        return self._syncer.finish_transfers()

    def _has_model(self, folder: str) -> bool:
        return (self._out / folder).is_dir() or (self._syncer is not None and folder in self._syncer.models)

    def _compute_front(self, state: SweepState) -> None:
        self._dominated |= self._front.keys()
        self._front = {}
        for trial in state.trials.values():
            for report in trial.candidates():
                self._update_front(trial.id, report)

    def _update_front(self, trial_id: str, report: EpochReport) -> None:
        candidate = (trial_id, report.epoch)
        costs = epoch_costs(report.values, self._goals) if self._goals else None
        self._front.pop(candidate, None)
        if costs is None or any(dominates(other, costs) for other in self._front.values()):
            self._dominated.add(candidate)
            return
        dominated = {key for key, other in self._front.items() if dominates(costs, other)}
        self._dominated |= dominated
        self._front = {key: other for key, other in self._front.items() if key not in dominated}
        self._front[candidate] = costs

    def _remove(self, folder: str) -> None:
        if self._syncer is not None:
            self._syncer.remove(folder)
        with contextlib.suppress(OSError):  # reconcile() tries again
            remove_atomically(self._out / folder)
