"""How often a side collapses the model: a mean over few seeds does not show what happens rarely."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from analysis.study.lr_grid import Unit
from analysis.study.paired import Share, exact_share
from analysis.study.study_runs import Configuration
from analysis.tables.sources import Sources
from analysis.tables.trial_table import TrialTable, finite_cell
from search_spaces.constraint import all_met

COLLAPSED = "collapsed"
"""The column of :func:`with_collapse`."""


@dataclass(frozen=True, slots=True)
class Collapse:
    """The collapsed runs of one side.

    Attributes:
        seeds: the seeds on which a front collapsed: no run of it keeps the model. One of AutoLR's starts is enough.
            Counted over the seeds on which it is known; ``seeds_unknown`` others.
        runs: collapsed runs among the ``of`` runs of which it is known; ``runs_unknown`` others.
    """

    seeds: Share
    runs: int
    of: int
    seeds_unknown: int = 0
    runs_unknown: int = 0


def with_collapse(part: Sources) -> TrialTable:
    """The table with a column :data:`COLLAPSED`: whether a finished trial lost the model.

    It did if the retain set's primary metric misses its share of the target's before unlearning, the paper's 70% of
    utility. NaN if the metric or the target's value is not known: then it is not known, unless the trial diverged.
    """
    table, sweep = part.table, part.sweep
    found = pd.Series(np.nan, index=table.trials.index)
    for name, column in sweep.columns.entries.items():
        threshold = column.threshold if column.primary and column.of == "retain" else None
        if threshold is not None and threshold.relative:
            rows = [row for _, row in table.trials.iterrows()]
            kept = [threshold.met(finite_cell(row, name), sweep.baseline_of(row).get(name)) for row in rows]
            lost = [np.nan if met is None else float(not met) for met in kept]
            found = pd.Series(lost, index=table.trials.index, dtype=float)
    return replace(table, trials=table.trials.assign(**{COLLAPSED: found}))


def collapse(seeds: Sequence[Sequence[Unit]]) -> Collapse:
    """The collapsed runs of one side; per seed its fronts, one for each start of AutoLR."""
    runs = [collapsed for units in seeds for unit in units for collapsed in _collapsed(unit)]
    # A front collapsed if all its runs did, and a seed if any of its fronts did; None spreads where it decides.
    lost = [_any(all_met(_collapsed(unit)) for unit in units) for units in seeds]
    known_runs, known = ([item for item in found if item is not None] for found in (runs, lost))
    share = exact_share(sum(known), len(known))
    return Collapse(share, sum(known_runs), len(known_runs), len(lost) - len(known), len(runs) - len(known_runs))


def chosen(unit_of: Sequence[tuple[Configuration, Unit]]) -> Unit:
    """The front of a choice of one rate for each configuration."""
    return replace(unit_of[0][1], runs={item: unit.runs[item] for item, unit in unit_of})


def _any(found: Iterable[bool | None]) -> bool | None:
    values = set(found)
    return True if True in values else None if None in values else False


def _collapsed(unit: Unit) -> list[bool | None]:
    """Whether each trial with an outcome collapsed; None if that is not known."""
    lost = [(run.diverged, finite_cell(run.row, COLLAPSED)) for run in unit.runs.values() if run.judged]
    return [True if diverged else None if value is None else value == 1.0 for diverged, value in lost]
