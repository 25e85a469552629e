"""Judge the fresh runs of a sweep: in how many of them does a configuration meet the criterion again?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.frontier.assessment import Thresholds, assess
from analysis.frontier.judgement import Outcome, choose_model
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable, numbers
from search_spaces.constraint import Constraint

LEVEL = 0.9
"""The probability with which a further run is within its prediction bound."""


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


def predicted_worst(rows: pd.DataFrame, limits: Sequence[Constraint]) -> dict[str, float]:
    """Return, for each limited score, how bad the score of a further run is expected to be at worst.

    This is the one-sided prediction bound for one more draw from a normal distribution, of which the n rows are draws:
    ``mean + t sd sqrt(1 + 1/n)`` for an upper limit, and ``mean - t sd sqrt(1 + 1/n)`` for a lower limit. Here, t is
    the quantile :data:`LEVEL` of Student's distribution with n - 1 degrees of freedom (Hahn and Meeker, Statistical
    Intervals, 1991, section 4.7). With fewer than two rows, or a missing score, the result is NaN.
    """
    from scipy.stats import t as student

    n = len(rows)
    factor = float(student.ppf(LEVEL, n - 1)) * math.sqrt(1.0 + 1.0 / n) if n > 1 else math.nan
    bounds: dict[str, float] = {}
    for limit in limits:
        values = numbers(rows, limit.name)
        margin = factor * float(values.std(ddof=1, skipna=False)) if n > 1 else math.nan
        sign = -1.0 if limit.sign.startswith(">") else 1.0
        bounds[limit.name] = float(values.mean(skipna=False)) + sign * margin
    return bounds
