"""Keep the models of the epochs on the Pareto front, and delete the models of dominated epochs.

With constraints, the models of the epochs on the front of the epochs that meet all constraints are kept, too, because
the analysis may recommend them. Workers save models, and only the driver deletes models. The model of an epoch is
deleted as soon as the epoch is on neither front. A finished trial always keeps the model of its last epoch, in
``checkpoints/TRIAL_ID``.
"""

from __future__ import annotations

import contextlib
import logging
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from analysis.errors import AnalysisError
from search_spaces.common.durable import remove_atomically
from search_spaces.common.front import Criteria, Point
from sweeper.followers.checkpoint_limit import CheckpointLimit
from sweeper.followers.syncer import Syncer
from sweeper.store.event_log import Follower
from sweeper.store.events import Event, MetricsMeasured, TrialEnded, TrialReported, TrialRequeued
from sweeper.store.saved_states import remove_states
from sweeper.store.state import SweepState, Trial
from trainables.run.reports import EpochReport
from trainables.storage import Storage, StorageError
from trainables.worker.candidates import candidate_folder, write_front

Candidate = tuple[str, float]
"""A trial id and an epoch."""
logger = logging.getLogger(__name__)


class CheckpointManager(Follower):
    """Maintains the front of all evaluated epochs and the front under the constraints (:meth:`Criteria.kept`).

    ``criteria`` is None if only the last epochs of trials are candidates; then both fronts stay empty. ``states`` is
    the storage of the saved states from which interrupted trials continue. ``limit`` limits the number of stored
    models. The limit is enforced when a trial ends, so a few more models may exist while trials run.
    """

    def __init__(
        self,
        out: Path,
        criteria: Criteria | None,
        *,
        states: Storage,
        syncer: Syncer | None = None,
        limit: CheckpointLimit | None = None,
    ) -> None:
        self._out = out
        self._limit = limit
        self._is_limit_due = limit is not None
        self._deleted: frozenset[str] = frozenset()  # folders of models beyond the limit
        self._criteria = criteria
        self._states = states
        self._syncer = syncer
        self._kept: dict[Candidate, Point] = {}
        self._written: dict[Candidate, Point] | None = None
        self._dominated: set[Candidate] = set()
        self._ended: set[str] = set()

    @property
    def folders(self) -> frozenset[str]:
        """The folders of the models on the fronts, relative to the sweep's folder."""
        return frozenset(candidate_folder(*candidate) for candidate in self._kept)

    @property
    def kept_epochs(self) -> dict[str, frozenset[float]]:
        """The epochs on the fronts, by trial id. May be read in any thread."""
        epochs: defaultdict[str, set[float]] = defaultdict(set)
        for trial_id, epoch in self._kept:  # never changed in place
            if candidate_folder(trial_id, epoch) not in self._deleted:
                epochs[trial_id].add(epoch)
        return {trial_id: frozenset(items) for trial_id, items in epochs.items()}

    def find(self, trial: Trial, report: EpochReport) -> str:
        """Return the folder of an epoch's model relative to the sweep's folder, or "" if there is no model."""
        if self._criteria is None:
            return ""
        checkpoint = None if trial.outcome is None else trial.outcome.checkpoint
        if checkpoint and report.step == trial.last_step and self.has_model(checkpoint):
            return checkpoint
        folder = candidate_folder(trial.id, report.epoch)
        return folder if self.has_model(folder) else ""

    def was_deleted(self, folder: str) -> bool:
        """Return whether ``--keep-checkpoints`` has deleted a stored model. May be called in any thread."""
        return self._limit is not None and not self.has_model(folder)

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
            self._add(state.trials[event.trial_id], [event.report])
        elif isinstance(event, MetricsMeasured):
            trial = state.trials[event.trial_id]
            self._add(trial, [report for report in trial.candidates() if report.step == event.step])
        elif isinstance(event, TrialEnded) and state.trials[event.trial_id].has_result:
            self._ended.add(event.trial_id)
        if isinstance(event, TrialEnded):
            self._is_limit_due = self._limit is not None

    def flush(self, state: SweepState) -> None:
        """Write the points on the fronts to a file. Workers read this file to decide whether to save a model.

        Delete the models of dominated epochs, and the saved states of ended trials.
        """
        if self._criteria is not None and self._written != self._kept:
            self._written = dict(self._kept)
            try:
                write_front(self._out, self._kept.values())
            except OSError as error:  # workers then also save models that are dominated
                logger.warning("cannot write to %s: %s", self._out, error)
            if self._syncer is not None:
                self._syncer.publish_front()
        for candidate in self._dominated - self._kept.keys():
            self._remove(candidate_folder(*candidate))
        self._dominated.clear()
        self._enforce_limit(state)
        for trial_id in self._ended:
            if self._syncer is not None:
                self._syncer.delete_states(trial_id)
            else:
                with contextlib.suppress(StorageError, OSError):
                    remove_states(self._states, trial_id)
        self._ended.clear()

    def _enforce_limit(self, state: SweepState) -> None:
        if self._limit is None or not self._is_limit_due:
            return
        stored = {f"checkpoints/{path.name}" for path in (self._out / "checkpoints").glob("*")}
        if self._syncer is not None:
            stored |= self._syncer.models
        try:
            excess = self._limit.excess(self._out, state, stored, self.folders)
        except AnalysisError as error:
            logger.warning("checkpoints beyond the limit are kept until the next trial ends: %s", error)
            excess = []
        self._deleted |= frozenset(excess)
        for folder in excess:
            self._remove(folder)
        self._is_limit_due = False

    def reconcile(self) -> None:
        """Delete all models of epochs that are on neither front, including models that killed processes left behind.

        Must not be called while a worker is running.
        """
        if self._criteria is None:
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
        """Download the models on the fronts from object storage. Return the files that could not be downloaded.

        Must not be called while a worker is running.
        """
        if self._syncer is None:
            return []
        self.reconcile()
        self._syncer.fetch(sorted(self.folders & self._syncer.models))
        return self._syncer.finish_transfers()

    def has_model(self, folder: str) -> bool:
        """Return whether a model exists. ``folder`` is relative to the sweep's folder. May be called in any thread."""
        return (self._out / folder).is_dir() or (self._syncer is not None and folder in self._syncer.models)

    def _compute_front(self, state: SweepState) -> None:
        self._dominated |= self._kept.keys()
        self._kept = {}
        for trial in state.trials.values():
            self._add(trial, trial.candidates())

    def _add(self, trial: Trial, reports: Iterable[EpochReport]) -> None:
        if self._criteria is None or not trial.phase.has_candidates:
            return
        points = self._kept | {(trial.id, report.epoch): self._criteria.point(report.values) for report in reports}
        mask = self._criteria.kept(list(points.values()))
        self._kept = {key: point for (key, point), is_kept in zip(points.items(), mask, strict=True) if is_kept}
        self._dominated |= points.keys() - self._kept.keys()

    def _remove(self, folder: str) -> None:
        if self._syncer is not None:
            self._syncer.remove(folder)
        with contextlib.suppress(OSError):  # reconcile() tries again
            remove_atomically(self._out / folder)
