"""How often a side ruins the model: a mean over few seeds does not show what happens rarely."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from analysis.study.bounded_mean import Share, exact_share
from analysis.study.lr_grid import Unit
from analysis.study.placed_trials import Setting
from analysis.tables.sources import Sources
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import ATTAIN_NOTHING, TrialTable, numbers

RUINED = "ruined"
"""The column of :func:`with_ruin`."""


@dataclass(frozen=True, slots=True)
class Ruin:
    """One side's ruin.

    Attributes:
        seeds: the seeds on which a front is ruined: no run of it keeps the model. Of AutoLR's starts one is enough.
        runs: ruined runs, ``of`` so many.
    """

    seeds: Share
    runs: int
    of: int


def with_ruin(part: Sources) -> TrialTable:
    """The table with a column :data:`RUINED`: whether a finished trial lost the model.

    It did where the retain set's primary metric misses its share of the No-unlearn model's, the paper's 70% of utility.
    NaN where it or the baseline is not known; only trials that diverged or were stopped count as ruined then.
    """
    table = part.table
    found = pd.Series(np.nan, index=table.trials.index)
    for _, rows in table.trials.groupby(["sweep", "seed"], sort=False, dropna=False):
        for name, bar in _bars(part.sweep, rows.iloc[0]):
            values = numbers(rows, name)
            found[rows.index] = (values < bar).astype(float).where(values.notna())
    return replace(table, trials=table.trials.assign(**{RUINED: found}))


def _bars(file: SweepFile, trial: pd.Series) -> Iterable[tuple[str, float]]:
    baseline = file.baseline_of(trial)
    for name, column in file.columns.entries.items():
        threshold = column.threshold if column.primary and column.of == "retain" else None
        if threshold is not None and threshold.relative and name in baseline:
            yield name, threshold.bound * baseline[name]


def ruin(seeds: Sequence[Sequence[Unit]]) -> Ruin:
    """The ruin of one side; per seed its fronts, one for each start of AutoLR."""
    runs = [ruined for units in seeds for unit in units for ruined in _ruined(unit)]
    lost = [any(all(_ruined(unit)) for unit in units) for units in seeds]
    return Ruin(exact_share(sum(lost), len(lost)), sum(runs), len(runs))


def chosen(unit_of: Sequence[tuple[Setting, Unit]]) -> Unit:
    """The front of a choice of one rate for each setting."""
    first = unit_of[0][1]
    return replace(first, trials={setting: unit.trials[setting] for setting, unit in unit_of})


def _ruined(unit: Unit) -> list[bool]:
    """Of each trial with an outcome whether it is ruined."""
    rows = [trial.row for trial in unit.trials.values() if trial.judged]
    return [row["status"] in ATTAIN_NOTHING or row.get(RUINED) == 1.0 for row in rows]
