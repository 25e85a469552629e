"""The paper's table: methods by metrics, without and with AutoLR, each at the configuration chosen for it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.errors import AnalysisError
from analysis.frontier.criteria import CRITERIA
from analysis.frontier.frontier import hypervolume
from analysis.frontier.trade_off import Objective
from analysis.study.cells import Cell, Setting, group_cells
from analysis.tables.trial_table import TrialTable
from analysis.words import number

METRICS = ("verbmem", "utility", "truth_ratio", "forget_loss", "retain_loss")
"""The columns every table has; others follow where they are filled."""
_NO_METRIC = frozenset(
    {"steps", "epochs_done", "forget_loss_capped", "train_seconds", "eval_seconds", "wall_seconds"}
    | {"started_at", "first_step_at", "ended_at", "generation_seconds", "padding"}
)
RULE = (
    "Each method is shown at one configuration (learning rate and options), without AutoLR and with it: the one with "
    "the largest share of seeds that meet the paper's thresholds (verbmem below 0.1; utility and truth ratio at least "
    "70% of No-unlearn), of those the one whose mean objectives dominate the largest share of the box. Choice and "
    "numbers are from the same seeds. Bold: the mean meets the metric's threshold. Means are over finished seeds; "
    "a success of some seeds says of how many. ± is the standard deviation over seeds."
)


@dataclass(frozen=True, slots=True)
class Value:
    """Mean and standard deviation (None for one seed) of a metric over seeds, and whether its threshold is met."""

    mean: float
    deviation: float | None
    met: bool | None


@dataclass(frozen=True, slots=True)
class Entry:
    """One configuration's numbers.

    Attributes:
        label: what was chosen: ``lr 1e-4, c 0.9``, or AutoLR's variant with its start; may be empty.
        seeds: finished trials behind the means; ``lost`` diverged, stopped or failed.
        values: by metric; a metric that was not measured is missing.
        success: whether the means meet all thresholds; None where that cannot be judged, as with lost seeds: they have
            no metrics, and the means of the others speak for these only.
    """

    label: str
    seeds: int
    lost: int
    values: Mapping[str, Value]
    success: bool | None

    def success_in_words(self) -> str:
        """``yes``, ``no``, an en dash where it is not known; ``yes (2 of 3 seeds)`` with lost seeds."""
        if self.success is None and self.lost and meets_thresholds(self.values):
            return f"yes ({self.seeds} of {self.seeds + self.lost} seeds)"
        return {True: "yes", False: "no", None: "\u2013"}[self.success]


@dataclass(frozen=True, slots=True)
class MethodRow:
    """A method without and with AutoLR; None where it was not run or nothing finished."""

    method: str
    without: Entry | None
    with_auto: Entry | None


@dataclass(frozen=True, slots=True)
class ComparisonTable:
    """One model and data set: the No-unlearn model and every method."""

    model: str
    dataset: str
    metrics: tuple[str, ...]
    baseline: Entry | None
    rows: tuple[MethodRow, ...]


def comparison_data(
    parts: Sequence[tuple[TrialTable, Sequence[Objective], Mapping[str, float]]],
) -> tuple[ComparisonTable, ...]:
    """A table for every model and data set of the sweeps, each given with its objectives and No-unlearn metrics.

    Raises:
        AnalysisError: no trial at all, or sweeps on one model and data set whose No-unlearn metrics differ: they had
            different targets.
    """
    baselines: dict[tuple[str, str], Mapping[str, float]] = {}
    for table, _, baseline in parts:
        for pair in dict.fromkeys(zip(table.trials["model"], table.trials["dataset"], strict=True)):
            known = baselines.setdefault(pair, baseline)
            if known and baseline and not _same(known, baseline):
                raise AnalysisError(
                    f"the sweeps on {pair[0]}, {pair[1]} have different No-unlearn models: compare them one at a time"
                )
            baselines[pair] = known or baseline
    columns, cells, _ = group_cells([(table, objectives) for table, objectives, _ in parts])
    if not cells:
        raise AnalysisError("there is no trial to compare yet")
    return tuple(
        _table(pair, [cell for cell in cells if (cell.problem.model, cell.problem.dataset) == pair], columns, baseline)
        for pair, baseline in baselines.items()
    )


def _table(
    pair: tuple[str, str], cells: Sequence[Cell], columns: Sequence[str], baseline: Mapping[str, float]
) -> ComparisonTable:
    finished = [cell.row for cell in cells if cell.row["status"] == "finished"]
    more = _other_metrics(finished, columns)
    rows = []
    for problem in dict.fromkeys(cell.problem for cell in cells):
        own = [cell for cell in cells if cell.problem == problem]
        rows.append(
            MethodRow(
                problem.method,
                _chosen([cell for cell in own if not cell.variant], columns, more, baseline),
                _chosen([cell for cell in own if cell.variant], columns, more, baseline),
            )
        )
    top = None
    if baseline:
        values = {name: Value(baseline[name], None, None) for name in more if name in baseline}
        top = Entry("No-unlearn", 1, 0, values, None)
    return ComparisonTable(*pair, more, top, tuple(rows))


def _other_metrics(rows: Sequence[pd.Series], columns: Sequence[str]) -> tuple[str, ...]:
    """The paper's metrics, then every other outcome of the trials that is a number."""
    found = dict.fromkeys(METRICS)
    for row in rows:
        names = list(row.index)
        outcome = names[names.index("status") + 1 :]
        found |= dict.fromkeys(name for name in outcome if name not in _NO_METRIC and _number(row[name]) is not None)
    filled = {name for row in rows for name in found if name in row.index and _number(row[name]) is not None}
    return tuple(name for name in found if name in filled)


def _chosen(
    cells: Sequence[Cell], columns: Sequence[str], metrics: Sequence[str], baseline: Mapping[str, float]
) -> Entry | None:
    """The entry of the configuration the rule picks."""
    configurations: dict[tuple[str, float | None, Setting], list[Cell]] = {}
    for cell in cells:
        configurations.setdefault((cell.variant, cell.lr, cell.setting), []).append(cell)
    best: tuple[tuple[float, float], Entry] | None = None
    for (variant, lr, setting), members in configurations.items():
        done = [cell for cell in members if cell.row["status"] == "finished"]
        if not done:
            continue
        values = _values([cell.row for cell in done], metrics, baseline)
        rate = [] if lr is None else [f"lr {number(lr)}"]
        if variant:
            rate = [" from ".join([f"AutoLR {variant}", *rate])]
        options = [
            f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in zip(columns, setting, strict=True)
            if value is not None
        ]
        lost = len(members) - len(done)
        success = meets_thresholds(values)
        entry = Entry(", ".join([*rate, *options]), len(done), lost, values, None if success and lost else success)
        successes = sum(_row_success(cell.row, baseline) for cell in done) / len(members)
        # A diverged seed attains the worst corner.
        costs = [cell.costs for cell in members]
        scored = [item for item in costs if item is not None]
        share = 0.0
        if scored:
            worst = np.ones_like(scored[0])
            share = hypervolume([np.mean([worst if item is None else item for item in costs], axis=0)])
        if best is None or (successes, share) > best[0]:
            best = (successes, share), entry
    return None if best is None else best[1]


def _values(rows: Sequence[pd.Series], metrics: Sequence[str], baseline: Mapping[str, float]) -> dict[str, Value]:
    thresholds = {item.column: item for item in CRITERIA}
    found = {}
    for name in metrics:
        numbers = [number for row in rows if (number := _number(row.get(name))) is not None]
        if not numbers:
            continue
        mean = math.fsum(numbers) / len(numbers)
        deviation = float(np.std(numbers, ddof=1)) if len(numbers) > 1 else None
        met = thresholds[name].met(mean, baseline.get(name)) if name in thresholds else None
        found[name] = Value(mean, deviation, met)
    return found


def meets_thresholds(values: Mapping[str, Value]) -> bool | None:
    """Whether these means meet all of the paper's thresholds; None where one cannot be judged."""
    verdicts = [values[item.column].met if item.column in values else None for item in CRITERIA]
    if False in verdicts:
        return False
    return None if None in verdicts else True


def _row_success(row: pd.Series, baseline: Mapping[str, float]) -> bool:
    return all(item.met(_number(row.get(item.column)), baseline.get(item.column)) for item in CRITERIA)


def _number(value: object) -> float | None:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.number)):
        return None
    return float(value) if math.isfinite(float(value)) else None


def _same(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    return all(math.isclose(one[name], other[name], rel_tol=1e-6) for name in one.keys() & other.keys())
