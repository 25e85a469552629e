"""Find the stored model of a trial and an epoch in the tables of a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from analysis.frontier.choice import choose_model
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable
from analysis.words import model_name
from search_spaces.common.messages import did_you_mean
from sweeper.settings.sources import Problems


@dataclass(frozen=True, slots=True, eq=False)
class StoredModel:
    """A model whose checkpoint exists. ``row`` is its row of ``table.models``."""

    name: str
    row: pd.Series
    checkpoint: Path


def stored_model(out: Path, table: TrialTable, sweep: SweepFile, trial_id: str, epoch: float | None) -> StoredModel:
    """Return the stored model of a trial. Without ``epoch``, the sweep's rule chooses among the trial's stored epochs.

    Raises:
        Problems: the trial, the epoch or the checkpoint does not exist. The message lists what exists.
    """
    rows = _with_checkpoint(out, table.without_external.models.trials)
    of_trial = rows[rows["trial_id"] == trial_id]
    if of_trial.empty:
        raise Problems([_no_model(table.without_external, trial_id, list(dict.fromkeys(rows["trial_id"])))])
    if epoch is None:
        row = _best(table.of_trial(trial_id), sweep, of_trial)
    else:
        matches = of_trial[of_trial["epoch"] == epoch]
        if matches.empty:
            raise Problems([_no_epoch(table, trial_id, epoch, stored=sorted(of_trial["epoch"]))])
        row = matches.iloc[0]
    return StoredModel(model_name(row, with_epoch=table.every_epoch), row, out / str(row["checkpoint"]))


def _with_checkpoint(out: Path, rows: pd.DataFrame) -> pd.DataFrame:
    return rows[[bool(folder) and (out / str(folder)).is_dir() for folder in rows["checkpoint"]]]


def _best(table: TrialTable, sweep: SweepFile, stored: pd.DataFrame) -> pd.Series:
    """Return the row that the sweep's rule chooses among the stored epochs of a trial; otherwise the last epoch."""
    if len(stored) > 1:
        candidates = table.candidates[table.candidates["step"].isin(stored["step"])]
        chosen = choose_model(replace(table, candidates=candidates), sweep).row
        if chosen is not None:
            return chosen
    return stored.iloc[int(stored["step"].to_numpy().argmax())]


def _no_model(table: TrialTable, trial_id: str, stored: Sequence[str]) -> str:
    """Return the message for a trial without a stored model. ``stored`` has the ids of the trials with models."""
    trials = table.trials
    status = trials.loc[trials["trial_id"] == trial_id, "status"]
    existing = f"trials with stored models: {', '.join(stored)}" if stored else "no trial has a stored model"
    if len(status) or trial_id in table.running:
        state = status.iloc[0] if len(status) else "running"
        return f"trial {trial_id} ({state}) has no stored model; {existing}"
    suggestion = did_you_mean(trial_id, stored)
    return f"unknown trial '{trial_id}'; {suggestion + '; ' if suggestion else ''}{existing}"


def _no_epoch(table: TrialTable, trial_id: str, epoch: float, *, stored: Sequence[float]) -> str:
    evaluated = table.candidates
    was_evaluated = ((evaluated["trial_id"] == trial_id) & (evaluated["epoch"] == epoch)).any()
    reason = "was evaluated, but its model was not kept" if was_evaluated else "does not exist"
    epochs = ", ".join(f"{item:g}" for item in stored)
    return f"epoch {epoch:g} of trial {trial_id} {reason}; epochs with stored models: {epochs}"
