"""Judge the fresh runs of a sweep: in how many of them does a configuration meet the criterion again?"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from analysis.frontier.assessment import Thresholds, assess
from analysis.frontier.judgement import Outcome, choose_model
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


def confirmed(model: pd.Series, table: TrialTable, thresholds: Thresholds) -> Confirmed:
    """Return the results of the fresh runs of a model. ``model`` is its row in ``table.models``."""
    trial_id, epoch = str(model["trial_id"]), float(model["epoch"])
    return next(
        (item for item in fresh_results(table, thresholds) if (item.trial_id, item.epoch) == (trial_id, epoch)),
        Confirmed(trial_id, epoch),
    )


def fresh_results(table: TrialTable, thresholds: Thresholds) -> list[Confirmed]:
    """Return the results of all fresh runs, in the order in which their models were confirmed first."""
    rows = table.fresh
    if rows.empty:
        return []
    return [
        Confirmed(
            str(trial_id),
            float(str(epoch)),
            runs=len(runs),
            met=sum(row["status"] == "finished" and assess(row, thresholds).is_good for _, row in runs.iterrows()),
        )
        for (trial_id, epoch), runs in rows.groupby(["confirms", "stop_epoch"], sort=False)
    ]


def confirmation_order(
    table: TrialTable, sweep: SweepFile, *, model: tuple[str, float | None] | None = None
) -> list[Confirmed]:
    """Return the models whose configurations are trained again, best first, with the results of their fresh runs.

    Args:
        model: the trial id and the epoch of the only model to confirm; None for the answer and its runners-up. The
            epoch None is the trial's last evaluated epoch.
    """
    choice = choose_model(table, sweep)
    if model is not None:
        rows = table.models.trials
        rows = rows[rows["trial_id"] == model[0]].sort_values("epoch")
        rows = rows[numbers(rows, "epoch") == model[1]] if model[1] is not None else rows.iloc[-1:]
        return [confirmed(row, table, choice.thresholds) for _, row in rows.iterrows()]
    if choice.row is None or choice.judgement.outcome is not Outcome.GOOD:
        return []
    return [confirmed(choice.row, table, choice.thresholds)]
