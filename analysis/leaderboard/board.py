"""Rank the methods of a leaderboard from the rows of its cells, as far as the noise of the seeds allows.

Methods share their seeds, so they are compared within each seed: each seed of each problem is a block, in which the
methods are ranked. Two methods are tied unless their mean ranks over the blocks differ by more than the noise
(:func:`shown_better`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import rankdata
from statsmodels.stats.proportion import proportion_confint

from analysis.errors import AnalysisError
from analysis.leaderboard.cell import COLUMNS, KEY, MEASURES
from analysis.tables.trade_off import Floats, Mask
from search_spaces.common.messages import some_of

DRAWS = 10_000
"""The number of random shuffles of the ranks."""
LEVEL = 0.95
_PROBLEM = ("model", "dataset", "forget_split")
_UNMEASURED = "unmeasured"
_TEXTS = ("forget_split", "trial_id", "axes", "attacks", "seeds_vary")
_MEASURED_WITH = {
    "hypervolume": ("axes",),
    "hypervolume_after_attack": ("axes", "attacks"),
    "equal_retention": ("axes",),
}
"""The columns that must have one value on each problem, so that a measure can be compared."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A method's result on one measure.

    Attributes:
        mean: the mean over the problems of the mean over seeds.
        mean_rank: the mean of the method's ranks in the blocks; 1 is the best rank.
        low, high: the first and the last rank that the method may have among all methods.
        worse: the methods that are shown to be worse.
    """

    mean: float
    mean_rank: float
    low: int
    high: int
    worse: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BoardRow:
    """The results of one method.

    Attributes:
        seeds: the number of training seeds.
        met: the sum of the successes of the cells; NaN if the success of a cell is unknown.
        cells: the number of cells.
        success_interval: the exact 95% interval of ``met / cells`` (Clopper and Pearson 1934). The unit is the cell,
            because the fresh runs of a cell have the same configuration.
        standings: the results by measure, without the measures that some cell lacks.
        seconds, epochs: the means per cell of the training time and of the epochs of the search.
    """

    method: str
    seeds: int
    met: float
    cells: int
    success_interval: tuple[float, float]
    standings: dict[str, Standing]
    seconds: float
    epochs: float


@dataclass(frozen=True, slots=True)
class Board:
    """The ranks of the methods on one problem, or on all problems together.

    Attributes:
        problem: text such as ``tiny-phi, authors``; "" for all problems together.
        rows: the methods, best success first; then by hypervolume.
        left_out: methods without a cell for each of these seeds on each problem.
        open_seeds: seeds that are left out, because methods have no cell on them yet.
        missing: measures that some cells lack, or that cells measured in different ways, such as after other attacks.
        unmeasured: the number of stored models on which a measurement or an attack failed, for each method with such
            models. The hypervolume after attack leaves these models out, so it may be too small.
        budget: the epochs of the search of each cell.
        decides: whether the number of blocks suffices to show any difference.
        seeds_vary: what a seed changes: "target", or "order" if all seeds share a given target.
    """

    problem: str
    rows: tuple[BoardRow, ...]
    seeds: tuple[int, ...]
    budget: int
    left_out: tuple[str, ...]
    open_seeds: tuple[int, ...]
    missing: tuple[str, ...]
    unmeasured: Mapping[str, int]
    decides: bool
    seeds_vary: str

    def shown(self, measure: str) -> list[tuple[list[str], tuple[str, ...]]]:
        """Return the differences that a measure shows: methods, and those that are worse than each of them."""
        groups: dict[tuple[str, ...], list[str]] = {}
        for row in self.rows:
            if worse := row.standings[measure].worse:
                groups.setdefault(worse, []).append(row.method)
        return [(better, worse) for worse, better in groups.items()]


def read_cells(path: Path) -> pd.DataFrame:
    """Read the rows of a leaderboard from cells.csv, which may be compressed.

    Raises:
        AnalysisError: the file cannot be read, lacks columns, repeats a cell, or its cells have different budgets.
    """
    try:
        rows = pd.read_csv(path, dtype=dict.fromkeys(_TEXTS, str))
    except (OSError, ValueError) as error:
        raise AnalysisError(f"{path} cannot be read as the cells of a leaderboard: {error}") from None
    older = {_UNMEASURED: None, "seeds_vary": "target"}  # the columns that older files lack
    rows = rows.assign(**{name: rows.get(name, default) for name, default in older.items()})
    if lacking := [name for name in COLUMNS if name not in rows]:
        raise AnalysisError(f"{path} lacks the columns {', '.join(lacking)}: expected cells.csv of a leaderboard")
    return checked_cells(rows, path)


def checked_cells(rows: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Return the rows with empty texts instead of NaN, sorted by key. Raises as :func:`read_cells`."""
    rows = rows.assign(**{name: rows[name].fillna("").astype(str) for name in _TEXTS})
    if rows.duplicated(list(KEY)).any():
        repeated = rows.loc[rows.duplicated(list(KEY)), "method"].unique().tolist()
        raise AnalysisError(f"{path} has several rows for one cell of {some_of(repeated)}: keep one row for each cell")
    budgets = sorted(rows["epoch_budget"].unique())
    if len(budgets) > 1:
        text = ", ".join(f"{value:g}" for value in budgets)
        raise AnalysisError(f"{path}: the cells have different budgets ({text} epochs), so they cannot be ranked")
    return rows.sort_values(list(KEY), ignore_index=True)


def boards(cells: pd.DataFrame, *, draws: int = DRAWS) -> list[Board]:
    """Return one board for each problem and, if there are several problems, first a board on all of them."""
    groups = [(", ".join(filter(None, map(str, key))), rows) for key, rows in cells.groupby(list(_PROBLEM), sort=True)]
    result = [_board(name, rows, draws=draws) for name, rows in groups]
    return [_board("", cells, draws=draws), *result] if len(result) > 1 else result


def _board(problem: str, cells: pd.DataFrame, *, draws: int) -> Board:
    rows = _without_gaps(cells)
    seeds = set(rows["seed"])
    measures = [name for name in MEASURES if _is_comparable(rows, name)]
    standings = {name: _standings(rows, name, draws=draws) for name in measures}
    board_rows = [_row(method, part, standings) for method, part in rows.groupby("method", sort=True)]
    counts = pd.to_numeric(rows[_UNMEASURED]).groupby(rows["method"]).sum()
    board_rows.sort(key=lambda row: (*(-row.standings[name].mean for name in measures[:2]), row.method))
    return Board(
        problem=problem,
        rows=tuple(board_rows),
        seeds=tuple(sorted(map(int, seeds))),
        budget=int(cells["epoch_budget"].iloc[0]),
        left_out=tuple(sorted(set(cells["method"]) - set(rows["method"]))),
        open_seeds=tuple(sorted(map(int, set(cells["seed"]) - seeds))),
        missing=tuple(name for name in MEASURES if name not in measures),
        unmeasured={str(method): int(count) for method, count in counts.items() if count > 0},
        decides=_decides(blocks=len(rows.drop_duplicates([*_PROBLEM, "seed"])), methods=len(board_rows)),
        seeds_vary="order" if (rows["seeds_vary"] == "order").any() else "target",
    )


def _is_comparable(rows: pd.DataFrame, measure: str) -> bool:
    """Return whether all cells have the measure, and those of a problem have measured it in the same way."""
    if rows.empty or not np.isfinite(rows[measure].astype(float)).all():
        return False
    ways = rows.groupby(list(_PROBLEM))[list(_MEASURED_WITH.get(measure, ()))]
    return bool((ways.nunique() <= 1).all(axis=None))


def _decides(*, blocks: int, methods: int) -> bool:
    """Return whether the largest difference, between the best and the worst of all blocks, is shown.

    If methods are equal, one of m (m - 1) pairs is the best and the worst of all blocks with the probability
    (m (m - 1))^(1 - blocks).
    """
    return methods < 2 or (methods * (methods - 1)) ** (1.0 - blocks) <= 1.0 - LEVEL


def _without_gaps(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the cells of methods that have a cell for each seed on each problem.

    Either some methods or some seeds are left out, whichever keeps more cells. So a leaderboard whose last seeds are
    being run ranks all methods on the finished seeds, and a method that has only just been added is left out.
    """
    problems, methods = list(_PROBLEM), cells["method"].nunique()
    units = len(cells.drop_duplicates([*problems, "seed"]))
    of_methods = cells[cells.groupby("method")["method"].transform("size") == units]
    complete = methods * len(cells.drop_duplicates(problems))
    of_seeds = cells[cells.groupby("seed")["seed"].transform("size") == complete]
    return of_seeds if len(of_seeds) > len(of_methods) else of_methods


def _row(method: object, rows: pd.DataFrame, standings: dict[str, dict[str, Standing]]) -> BoardRow:
    met = float(rows["success"].astype(float).sum(skipna=False))
    interval = (math.nan, math.nan)
    if math.isfinite(met):
        interval = proportion_confint(met, len(rows), alpha=1.0 - LEVEL, method="beta")
    return BoardRow(
        method=str(method),
        seeds=int(rows["seed"].nunique()),
        met=met,
        cells=len(rows),
        success_interval=(float(interval[0]), float(interval[1])),
        standings={name: found[str(method)] for name, found in standings.items()},
        seconds=float(rows["seconds"].mean()),
        epochs=float(rows["epochs"].mean()),
    )


def _standings(rows: pd.DataFrame, measure: str, *, draws: int) -> dict[str, Standing]:
    # One row for each problem and seed, one column for each method.
    scores = rows.pivot(index=[*_PROBLEM, "seed"], columns="method", values=measure).astype(float)
    means = scores.groupby(level=list(_PROBLEM)).mean().mean()
    ranks = rankdata(-scores.to_numpy().round(12), axis=1)  # equal sums in another order tie
    is_better = shown_better(ranks, draws=draws)
    mean_ranks = ranks.mean(axis=0)
    return {
        str(method): Standing(
            mean=float(means[method]),
            mean_rank=float(mean_ranks[i]),
            low=1 + int(is_better[:, i].sum()),
            high=len(means) - int(is_better[i].sum()),
            worse=tuple(map(str, scores.columns[is_better[i]])),
        )
        for i, method in enumerate(scores.columns)
    }


def shown_better(ranks: Floats, *, draws: int = DRAWS) -> Mask:
    """Return whether each of m methods (rows) is shown to be better than each other method (columns), shape (m, m).

    A method is shown to be better than another if the difference of their mean ranks is so large that the largest
    difference of any two methods is as large with a probability of at most 5% when the ranks of each block are shuffled
    among the methods. So if all methods are equal, the probability that any two of them are separated is at most 5%.
    This is the test of Nemenyi for Friedman's ranks (Demsar, Statistical Comparisons of Classifiers over Multiple Data
    Sets, JMLR 7, 2006), with the exact distribution, which ties and few seeds need, sampled by ``draws`` shuffles.

    Args:
        ranks: the ranks in each block, shape (blocks, m). Tied methods have the mean of their ranks.
    """
    generator = np.random.default_rng(0)
    shuffled = generator.permuted(np.broadcast_to(ranks, (draws, *ranks.shape)), axis=2).mean(axis=1)
    largest = np.sort(np.ptp(shuffled, axis=1).round(9))
    means = ranks.mean(axis=0)
    lead = (means[None, :] - means[:, None]).round(9)  # by how much the row's method is better than the column's
    p = (1.0 + draws - np.searchsorted(largest, np.abs(lead), side="left")) / (1.0 + draws)
    return np.asarray((p <= 1.0 - LEVEL) & (lead > 0.0))
