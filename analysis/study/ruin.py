"""How often a side ruins the model: a mean over few seeds does not show what happens rarely."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from analysis.study.bounded_mean import Share, exact_share
from analysis.study.lr_grid import Unit
from analysis.study.placed_trials import PlacedTrial, Setting
from analysis.tables.sources import Sources
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable, finite_cell
from analysis.words import counted
from search_spaces.constraint import Constraint, all_met

RUINED = "ruined"
"""The column of :func:`with_ruin`."""


@dataclass(frozen=True, slots=True)
class Ruin:
    """One side's ruin.

    Attributes:
        seeds: the seeds on which a front is ruined: no run of it keeps the model. Of AutoLR's starts one is enough.
            Of the seeds of which that is known; ``seeds_unknown`` others.
        runs: ruined runs, ``of`` so many of which it is known; ``runs_unknown`` others.
    """

    seeds: Share
    runs: int
    of: int
    seeds_unknown: int = 0
    runs_unknown: int = 0

    def runs_in_words(self) -> str:
        """``2 ruined runs of 5, 15 runs of which it is not known``."""
        unknown = f"{counted(self.runs_unknown, 'run')} of which it is not known" if self.runs_unknown else ""
        known = f"{counted(self.runs, 'ruined run')} of {self.of}" if self.of else ""
        return ", ".join(filter(None, (known, unknown)))


def with_ruin(part: Sources) -> TrialTable:
    """The table with a column :data:`RUINED`: whether a finished trial lost the model.

    It did where the retain set's primary metric misses its share of the No-unlearn model's, the paper's 70% of utility.
    NaN where it or the baseline is not known: of such a trial it is not known, unless it diverged.
    """
    table = part.table
    found = pd.Series(np.nan, index=table.trials.index)
    for _, rows in table.trials.groupby(["sweep", "seed"], sort=False, dropna=False):
        baseline = part.sweep.baseline_of(rows.iloc[0])
        for name, threshold in _retain_thresholds(part.sweep):
            kept = [threshold.met(finite_cell(row, name), baseline.get(name)) for _, row in rows.iterrows()]
            found.loc[rows.index] = np.array([np.nan if met is None else float(not met) for met in kept])
    return replace(table, trials=table.trials.assign(**{RUINED: found}))


def _retain_thresholds(file: SweepFile) -> Iterable[tuple[str, Constraint]]:
    for name, column in file.columns.entries.items():
        threshold = column.threshold if column.primary and column.of == "retain" else None
        if threshold is not None and threshold.relative:
            yield name, threshold


def ruin(seeds: Sequence[Sequence[Unit]]) -> Ruin:
    """The ruin of one side; per seed its fronts, one for each start of AutoLR."""
    runs = [ruined for units in seeds for unit in units for ruined in _ruined(unit)]
    # A front is ruined if all its runs are, and a seed if any of its fronts is; None spreads where it decides.
    lost = [_any(all_met(_ruined(unit)) for unit in units) for units in seeds]
    known_runs, known = ([item for item in found if item is not None] for found in (runs, lost))
    share = exact_share(sum(known), len(known))
    return Ruin(share, sum(known_runs), len(known_runs), len(lost) - len(known), len(runs) - len(known_runs))


def _any(found: Iterable[bool | None]) -> bool | None:
    values = set(found)
    return True if True in values else None if None in values else False


def chosen(unit_of: Sequence[tuple[Setting, Unit]]) -> Unit:
    """The front of a choice of one rate for each setting."""
    first = unit_of[0][1]
    return replace(first, trials={setting: unit.trials[setting] for setting, unit in unit_of})


def _ruined(unit: Unit) -> list[bool | None]:
    """Of each trial with an outcome whether it is ruined; None where that is not known."""
    return [_is_ruined(trial) for trial in unit.trials.values() if trial.judged]


def _is_ruined(trial: PlacedTrial) -> bool | None:
    lost = finite_cell(trial.row, RUINED)
    return True if trial.diverged else None if lost is None else lost == 1.0
