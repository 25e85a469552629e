"""Rank the methods of a leaderboard from the rows of its cells, with bootstrap intervals over training seeds.

Methods share their seeds, so every bootstrap draw uses the same seeds for all methods. A method's place on a measure is
1 plus the number of methods whose rank interval lies completely above its own. Methods with overlapping intervals
therefore never differ in place because of their means alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import binomtest, rankdata

from analysis.errors import AnalysisError
from analysis.leaderboard.cell import COLUMNS, KEY, MEASURES
from analysis.tables.trade_off import Floats
from search_spaces.common.messages import some_of

DRAWS = 10_000
"""The number of bootstrap draws."""
LEVEL = 0.95
LEAST_SEEDS = 5
"""With fewer seeds, not even a method that is better on each of them is better at the 5% level: 0.5^4 > 0.05."""
_PROBLEM = ("model", "dataset", "forget_split")
_UNMEASURED = "unmeasured"


@dataclass(frozen=True, slots=True)
class Standing:
    """A method's result on one measure.

    Attributes:
        mean: the mean over the problems of the mean over seeds; NaN if the measure is missing in a cell.
        low, high: the ends of the bootstrap interval of the rank; 1 is the best rank.
        place: 1 plus the number of methods whose interval lies completely above this one.
    """

    mean: float
    low: int
    high: int
    place: int


@dataclass(frozen=True, slots=True)
class BoardRow:
    """The results of one method.

    Attributes:
        seeds: the number of training seeds.
        met, runs: the number of fresh runs that meet the criterion, and of all fresh runs. A cell whose search
            recommends no model has no fresh runs, and counts as one run that does not meet the criterion.
        success_interval: the exact interval of ``met / runs`` (Clopper and Pearson 1934), which treats runs as
            independent.
        standings: the results by measure, without the measures that some cell lacks.
        seconds, epochs: the means per cell of the training time and of the epochs of the search.
    """

    method: str
    seeds: int
    met: int
    runs: int
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
        missing: measures that no cell has, or not all cells have.
        unmeasured: the number of stored models on which a measurement or an attack failed, for each method with such
            models. The hypervolume after attack leaves these models out, so it may be too small.
        budget: the epochs of the search of each cell.
    """

    problem: str
    rows: tuple[BoardRow, ...]
    seeds: tuple[int, ...]
    budget: int
    left_out: tuple[str, ...]
    open_seeds: tuple[int, ...]
    missing: tuple[str, ...]
    unmeasured: Mapping[str, int]


def read_cells(path: Path) -> pd.DataFrame:
    """Read the rows of a leaderboard from cells.csv, which may be compressed.

    Raises:
        AnalysisError: the file cannot be read, lacks columns, repeats a cell, or its cells have different budgets.
    """
    try:
        rows = pd.read_csv(path, dtype={"forget_split": str, "trial_id": str, "axes": str, "attacks": str})
    except (OSError, ValueError) as error:
        raise AnalysisError(f"{path} cannot be read as the cells of a leaderboard: {error}") from None
    rows = rows.assign(**{_UNMEASURED: rows.get(_UNMEASURED)})  # older files lack the column
    if lacking := [name for name in COLUMNS if name not in rows]:
        raise AnalysisError(f"{path} lacks the columns {', '.join(lacking)}: expected cells.csv of a leaderboard")
    return checked_cells(rows, path)


def checked_cells(rows: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Return the rows with empty texts instead of NaN, sorted by key. Raises as :func:`read_cells`."""
    texts = ["forget_split", "trial_id", "axes", "attacks"]
    rows = rows.assign(**{name: rows[name].fillna("").astype(str) for name in texts})
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
    measures = [name for name in MEASURES if len(rows) and np.isfinite(rows[name].astype(float)).all()]
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
    )


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
    met, runs = int(rows["fresh_met"].sum()), int(rows["fresh_runs"].clip(lower=1).sum())
    interval = binomtest(met, runs).proportion_ci(LEVEL, method="exact")
    return BoardRow(
        method=str(method),
        seeds=int(rows["seed"].nunique()),
        met=met,
        runs=runs,
        success_interval=(float(interval.low), float(interval.high)),
        standings={name: found[str(method)] for name, found in standings.items()},
        seconds=float(rows["seconds"].mean()),
        epochs=float(rows["epochs"].mean()),
    )


def _standings(rows: pd.DataFrame, measure: str, *, draws: int) -> dict[str, Standing]:
    methods = sorted(rows["method"].unique())
    scores = [
        part.pivot(index="method", columns="seed", values=measure).loc[methods].to_numpy(dtype=np.float64)
        for _, part in rows.groupby(list(_PROBLEM), sort=True)
    ]
    means = np.mean([part.mean(axis=1) for part in scores], axis=0)
    low, high = rank_intervals(scores, draws=draws)
    return {
        method: Standing(float(means[i]), int(low[i]), int(high[i]), 1 + int((high < low[i]).sum()))
        for i, method in enumerate(methods)
    }


def rank_intervals(scores: Sequence[Floats], *, draws: int = DRAWS) -> tuple[Floats, Floats]:
    """Return the ends of the percentile bootstrap intervals of the ranks of m methods, both with the shape (m,).

    A draw samples the seeds of each problem with replacement, with the same seeds for all methods. Methods with equal
    means share the ranks that they occupy, so the interval contains all of them. With fewer than :data:`LEAST_SEEDS`
    seeds, the interval contains all ranks, because a bootstrap of so few seeds is too narrow.

    Args:
        scores: an array for each problem, shape (m, seeds). Larger scores are better.
    """
    count = len(scores[0])
    if min(part.shape[1] for part in scores) < LEAST_SEEDS:
        return np.ones(count), np.full(count, float(count))
    generator = np.random.default_rng(0)
    drawn = np.mean(
        [part[:, generator.integers(part.shape[1], size=(draws, part.shape[1]))].mean(axis=2) for part in scores],
        axis=0,
    )
    drawn = np.round(drawn, 12)  # equal sums in another order must tie
    tail = (1.0 - LEVEL) / 2.0
    best = np.quantile(rankdata(-drawn, method="min", axis=0), tail, axis=1, method="inverted_cdf")
    worst = np.quantile(rankdata(-drawn, method="max", axis=0), 1.0 - tail, axis=1, method="inverted_cdf")
    return np.asarray(best, dtype=np.float64), np.asarray(worst, dtype=np.float64)
