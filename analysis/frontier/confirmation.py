"""Judge the fresh runs of a sweep: in how many of them does a configuration meet the criterion again?

The answer is the best of many models, so it may meet the criterion by the luck of its seed. A *fresh run* trains its
configuration again with another seed, up to the same epoch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.frontier.criterion import Criterion
from analysis.tables.trade_off import Mask
from analysis.tables.trial_table import numbers
from search_spaces.constraint import Constraint

LEVEL = 0.9
"""The probability with which the scores of a further run are within their prediction bounds."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The results of a model's fresh runs.

    Attributes:
        trial_id, epoch: the model.
        runs: the number of fresh runs that have ended.
        met: the number of fresh runs whose model meets the criterion. A failed or diverged run does not meet it.
        expected: whether the worst scores that are expected of a further run meet the criterion, too.
    """

    trial_id: str
    epoch: float
    runs: int = 0
    met: int = 0
    expected: bool = False

    @property
    def holds(self) -> bool:
        """Whether there are fresh runs, and all of them meet the criterion."""
        return 0 < self.runs == self.met

    def to_dict(self) -> dict[str, object]:
        """Return the entry ``confirmed`` of the answer in pareto.json."""
        return {"runs": self.runs, "met": self.met, "expected": self.expected}


def confirmed(model: pd.Series, fresh: pd.DataFrame, criterion: Criterion) -> Confirmed:
    """Return the results of the fresh runs of a model.

    Args:
        model: the row of the model, with the columns ``trial_id`` and ``epoch``.
        fresh: one row per ended confirm trial (:attr:`analysis.tables.trial_table.TrialTable.fresh`).
    """
    trial_id, epoch = str(model["trial_id"]), float(model["epoch"])
    found = (item for item in fresh_results(fresh, criterion) if (item.trial_id, item.epoch) == (trial_id, epoch))
    return next(found, Confirmed(trial_id, epoch))


def fresh_results(fresh: pd.DataFrame, criterion: Criterion) -> list[Confirmed]:
    """Return the results of all fresh runs, in the order in which their models were confirmed first."""
    if fresh.empty:
        return []
    criterion = criterion.of_runs
    results = []
    for (trial_id, epoch), runs in fresh.groupby(["confirms", "stop_epoch"], sort=False):
        met = int(meets(runs, criterion).sum())
        expected = met == len(runs) and _is_expected(runs, criterion)
        results.append(Confirmed(str(trial_id), float(str(epoch)), len(runs), met, expected))
    return results


def meets(runs: pd.DataFrame, criterion: Criterion) -> Mask:
    """Return a mask of the fresh runs that meet the criterion, shape (runs,)."""
    return np.asarray(criterion.is_good(runs) & (runs["status"] == "finished").to_numpy())


def _is_expected(runs: pd.DataFrame, criterion: Criterion) -> bool:
    limits = [item.limit for item in criterion.requirements if not item.preferred]
    return bool(criterion.is_good(runs.iloc[:1].assign(**predicted_worst(runs, limits)))[0])


def predicted_worst(runs: pd.DataFrame, limits: Sequence[Constraint]) -> dict[str, float]:
    """Return, for each limited score, the worst value that is expected of a further run.

    If the n runs are draws from a normal distribution, this is the one-sided prediction bound for one more draw:
    ``mean + t sd sqrt(1 + 1/n)`` for an upper limit, and ``mean - t sd sqrt(1 + 1/n)`` for a lower limit. Here, t is
    the quantile :data:`LEVEL` of Student's distribution with n - 1 degrees of freedom (Hahn and Meeker, Statistical
    Intervals, 1991, section 4.7). With fewer than two runs, or a missing score, the value is NaN.
    """
    from scipy.stats import t as student

    n = len(runs)
    factor = float(student.ppf(LEVEL, n - 1)) * math.sqrt(1.0 + 1.0 / n) if n > 1 else math.nan
    bounds: dict[str, float] = {}
    for limit in limits:
        values = numbers(runs, limit.name)
        margin = factor * float(values.std(ddof=1, skipna=False)) if n > 1 else math.nan
        sign = -1.0 if limit.sign.startswith(">") else 1.0
        bounds[limit.name] = float(values.mean(skipna=False)) + sign * margin
    return bounds
