"""Which stored models are deleted first if ``--keep-checkpoints`` limits their number."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from search_spaces.common.front import Criteria
from sweeper.store.state import SweepState, Trial
from trainables.run.reports import EpochReport
from trainables.worker.candidates import candidate_folder


@dataclass(frozen=True, slots=True)
class CheckpointLimit:
    """The maximum number of stored models, and the objectives and constraints by which models are ranked."""

    models: int
    criteria: Criteria

    def excess(self, out: Path, state: SweepState, stored: Collection[str], on_front: Collection[str]) -> list[str]:
        """Return the folders of the models to delete, as a function of the events and of the stored models.

        Models of confirm trials are deleted first, then models off the front, and then models that violate a
        constraint. Of equal models, those furthest from the best values of all objectives are deleted first. The answer
        of the tables and its runners-up are not deleted, and neither are models without a report, which a worker may
        just have saved.

        Args:
            out: the sweep's folder, with tables that are up to date.
            stored: the folders of all stored models.
            on_front: the folders of the models on the front.

        Raises:
            AnalysisError: the tables cannot be read.
        """
        ranks = {
            folder: (not trial.phase.has_candidates, folder not in on_front, *self._rank(report), folder)
            for trial in state.trials.values()
            for report in trial.candidates()
            for folder in _folders(trial, report)
            if folder in stored
        }
        count = len(ranks) - self.models
        if count <= 0:
            return []
        spared = answer_folders(out)
        return [folder for folder in sorted(ranks, key=ranks.__getitem__, reverse=True) if folder not in spared][:count]

    def _rank(self, report: EpochReport) -> tuple[bool, float]:
        point = self.criteria.point(report.values)
        pairs = zip(self.criteria.objectives, point.values, strict=True)
        distance = float(np.linalg.norm([float(item.cost(value)) for item, value in pairs]))
        return not point.acceptable, distance if math.isfinite(distance) else math.inf


def _folders(trial: Trial, report: EpochReport) -> list[str]:
    """Return the folders in which the model of an epoch may be stored."""
    folders = [candidate_folder(trial.id, report.epoch)]
    if trial.outcome is not None and trial.outcome.checkpoint and report.step == trial.last_step:
        folders.append(trial.outcome.checkpoint)
    return folders


def answer_folders(out: Path) -> frozenset[str]:
    """Return the folders of the answer of a sweep and of its two runners-up, relative to the sweep's folder ``out``.

    If the answer is good, its runners-up are the models of other configurations that may become the answer after fresh
    runs.

    Raises:
        AnalysisError: the tables cannot be read.
    """
    from analysis.frontier.choice import choose_model, to_confirm
    from analysis.tables.sweep_file import SweepFile
    from analysis.tables.trial_table import TrialTable

    table, sweep = TrialTable.read(out), SweepFile.read(out)
    choice = choose_model(table, sweep)
    if choice.row is None:
        return frozenset()
    runners_up = to_confirm(choice, table) or choice.runners_up
    return frozenset([choice.row["checkpoint"], *choice.rows.iloc[list(runners_up)]["checkpoint"]])
