"""Judge the fresh runs of a sweep: in how many of them does a configuration meet the criterion again?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.frontier.assessment import assess
from analysis.frontier.judgement import choose_model
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable, numbers


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The results of a model's fresh runs.

    Attributes:
        trial_id, epoch: the model.
        runs: the number of fresh runs that have ended.
        met: the number of fresh runs whose model meets the criterion. A failed or diverged run does not meet it.
    """

    trial_id: str
    epoch: float
    runs: int = 0
    met: int = 0

    @property
    def holds(self) -> bool:
        """Whether there are fresh runs, and all of them meet the criterion."""
        return 0 < self.runs == self.met


def confirmed(model: pd.Series, fresh: pd.DataFrame, meets: Callable[[pd.Series], bool]) -> Confirmed:
    """Return the results of the fresh runs of a model.

    Args:
        model: the row of the model, with the columns ``trial_id`` and ``epoch``.
        fresh: one row per ended confirm trial.
        meets: function that takes the row of a finished confirm trial, and returns whether it meets the criterion.
    """
    trial_id, epoch = str(model["trial_id"]), float(model["epoch"])
    if fresh.empty:
        return Confirmed(trial_id, epoch)
    runs = fresh[(fresh["confirms"] == trial_id) & (numbers(fresh, "stop_epoch") == epoch)]
    if "sweep" in model.index:
        runs = runs[runs["sweep"] == model["sweep"]]
    finished = runs[runs["status"] == "finished"]
    return Confirmed(trial_id, epoch, len(runs), sum(meets(row) for _, row in finished.iterrows()))


def best_confirmed(models: Sequence[Confirmed]) -> int:
    """Return the position of the model to recommend among the answer and its runners-up, best first.

    The first model that holds is recommended, and the answer if none holds.
    """
    return next((position for position, model in enumerate(models) if model.holds), 0)


def confirmation_order(
    table: TrialTable, sweep: SweepFile, *, model: tuple[str, float | None] | None = None
) -> list[Confirmed]:
    """Return the models whose configurations are trained again, best first, with the results of their fresh runs.

    Args:
        model: the trial id and the epoch of the only model to confirm; None for the answer and its runners-up. The
            epoch None is the trial's last evaluated epoch.
    """
    choice = choose_model(table, sweep)

    def meets(row: pd.Series) -> bool:
        return assess(row, choice.thresholds).is_good

    if model is not None:
        rows = choice.rows[choice.rows["trial_id"] == model[0]]
        rows = rows[numbers(rows, "epoch") == model[1]] if model[1] is not None else rows.iloc[-1:]
        return [confirmed(row, table.fresh, meets) for _, row in rows.iterrows()]
    if choice.row is None or not choice.judgement.recommended:
        return []
    return [confirmed(choice.row, table.fresh, meets)]
