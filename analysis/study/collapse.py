"""Count the runs in which the model collapsed. A mean over a few seeds does not show rare collapses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from analysis.study.lr_grid import SeedFront
from analysis.study.paired import Share, exact_share
from analysis.tables.sources import Sources
from analysis.tables.trial_table import TrialTable, finite_cell
from search_spaces.constraint import all_met

COLLAPSED = "collapsed"
"""The column that :func:`with_collapse` adds."""


@dataclass(frozen=True, slots=True)
class Collapse:
    """The number of collapsed runs of AutoLR or of a hand-tuned baseline.

    A seed counts as collapsed if all runs of at least one of its Pareto fronts collapsed.

    Attributes:
        seeds: the share of collapsed seeds among the seeds with a known result.
        runs: the number of collapsed runs.
        of: the number of runs with a known result.
        seeds_unknown, runs_unknown: the number of seeds and the number of runs without a known result.
    """

    seeds: Share
    runs: int
    of: int
    seeds_unknown: int
    runs_unknown: int


def with_collapse(source: Sources) -> TrialTable:
    """Add the column :data:`COLLAPSED` to the table: 1 if a model collapsed, 0 if it did not, NaN if unknown.

    A model collapsed if it misses the paper's threshold on the primary metric of the retain set, which is a share of
    the target's value.
    """
    table, sweep = source.table, source.sweep
    collapsed = pd.Series(np.nan, index=table.trials.index)
    for name, column in sweep.columns.entries.items():
        threshold = column.threshold if column.primary and column.of == "retain" else None
        if threshold is not None and threshold.relative:
            rows = [row for _, row in table.trials.iterrows()]
            met_by_row = [threshold.met(finite_cell(row, name), sweep.baseline_of(row).get(name)) for row in rows]
            values = [np.nan if met is None else float(not met) for met in met_by_row]
            collapsed = pd.Series(values, index=table.trials.index, dtype=float)
    return replace(table, trials=table.trials.assign(**{COLLAPSED: collapsed}))


def collapse(seeds: Sequence[Sequence[SeedFront]]) -> Collapse:
    """Count the collapsed runs and seeds. ``seeds`` has one list of Pareto fronts for each seed."""
    runs = [collapsed for fronts in seeds for front in fronts for collapsed in _collapsed(front)]
    # None means unknown.
    by_seed = [_any(all_met(_collapsed(front)) for front in fronts) for fronts in seeds]
    known_runs, known = ([item for item in results if item is not None] for results in (runs, by_seed))
    share = exact_share(sum(known), len(known))
    return Collapse(share, sum(known_runs), len(known_runs), len(by_seed) - len(known), len(runs) - len(known_runs))


def _any(results: Iterable[bool | None]) -> bool | None:
    values = set(results)
    return True if True in values else None if None in values else False


def _collapsed(front: SeedFront) -> list[bool | None]:
    results = [(run.diverged, finite_cell(run.row, COLLAPSED)) for run in front.runs.values() if run.has_outcome]
    return [True if diverged else None if value is None else value == 1.0 for diverged, value in results]
