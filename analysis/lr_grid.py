"""The units of a learning-rate study: one front over c per (seed, model, data set, method, learning rate or AutoLR).

Points of one front are not independent samples; its hypervolume is the one number a seed contributes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.errors import AnalysisError
from analysis.frontier import hypervolume
from analysis.objectives import Floats, Objective, costs_of, measured, values_of
from analysis.table import TrialTable
from analysis.words import counted

Setting = tuple[object, ...]
"""What a person varies besides the learning rate: c, and any other option or field in which trials differ."""

_VARIANT = ("auto_lr_smoothing", "auto_lr_probe", "auto_lr_every", "auto_lr_start")
_NO_SETTING = frozenset(
    {"model", "dataset", "method", "lr", "auto_lr", "seed", "target_key", "model_path", "target_path", "data_dir"}
    | {"target_epochs", "target_lr", "target_batch_size", "eval_batch_size", "metrics_every", *_VARIANT}
)


@dataclass(frozen=True, slots=True)
class Problem:
    """What is unlearned by what: the model, the data set and the method."""

    model: str
    dataset: str
    method: str


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """One front over the settings.

    Attributes:
        variant: AutoLR's, such as ``clip/fresh``; empty for a fixed learning rate.
        lr: the fixed learning rate, or AutoLR's start.
        costs: per setting the trial's costs, shape (m,), in [0, 1]; None for a trial that diverged or was stopped: it
            counts and adds nothing.
        missing: settings of the problem that have no outcome here (not run, failed, or a metric is missing).
        train_seconds: per setting of a finished trial, its time in training; NaN where not recorded.
        metrics: per setting the row of the trial table.
    """

    problem: Problem
    variant: str
    lr: float
    seed: int
    costs: Mapping[Setting, Floats | None]
    missing: tuple[Setting, ...]
    train_seconds: Mapping[Setting, float]
    rows: Mapping[Setting, pd.Series]

    @property
    def points(self) -> Floats:
        """The costs of the finished trials, shape (k, m)."""
        found = [costs for costs in self.costs.values() if costs is not None]
        return np.stack(found) if found else np.empty((0, 2))

    @property
    def hypervolume(self) -> float:
        """The share of the box that the front dominates; 0 if all trials diverged, NaN for an incomplete unit."""
        return math.nan if self.missing else hypervolume(self.points)


@dataclass(frozen=True, slots=True, eq=False)
class LrGrid:
    """All units.

    Attributes:
        setting_columns: what a :data:`Setting` holds, in order.
        notes: what was left out, in sentences.
    """

    units: tuple[Unit, ...]
    setting_columns: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Every (model, data set, method), in the order of the table."""
        return tuple(dict.fromkeys(unit.problem for unit in self.units))

    def variants(self, problem: Problem) -> tuple[str, ...]:
        """AutoLR's variants that were run on a problem."""
        return tuple(dict.fromkeys(unit.variant for unit in self.units if unit.problem == problem and unit.variant))

    def arm(self, problem: Problem, variant: str = "") -> dict[float, dict[int, Unit]]:
        """The units of fixed learning rates, or of one AutoLR variant: by learning rate (rising), then by seed."""
        found: dict[float, dict[int, Unit]] = defaultdict(dict)
        for unit in self.units:
            if unit.problem == problem and unit.variant == variant:
                found[unit.lr][unit.seed] = unit
        return {lr: dict(sorted(found[lr].items())) for lr in sorted(found)}


def lr_grid(parts: Sequence[tuple[TrialTable, Sequence[Objective]]]) -> LrGrid:
    """The units in the tables of one or several sweeps, each with its own objectives (and thus bounds).

    Of two trials of the same unit and setting the first counts.

    Raises:
        AnalysisError: sweeps with different objectives, or a table without a column of them.
    """
    names = {tuple((objective.column, objective.direction) for objective in objectives) for _, objectives in parts}
    if len(names) > 1:
        raise AnalysisError("the sweeps have different objectives: their hypervolumes do not compare")
    merged = TrialTable.merge([table for table, _ in parts]) if len(parts) > 1 else parts[0][0]
    varying = tuple(
        name
        for name in merged.spec_columns
        if name not in _NO_SETTING and merged.trials[name].nunique(dropna=False) > 1
    )
    of_variant = tuple(
        name
        for name in _VARIANT
        if name in merged.trials.columns
        and (name in _VARIANT[:2] or merged.trials.loc[_automatic(merged.trials), name].nunique() > 1)
    )
    cells: dict[tuple[Problem, str, float, int], dict[Setting, tuple[pd.Series, Floats | None, bool]]] = {}
    doubled = 0
    for table, objectives in parts:
        automatic = _automatic(table.trials)
        values = values_of(table.trials, objectives)
        scored = measured(values)
        for index, (_, row) in enumerate(table.trials.iterrows()):
            problem = Problem(str(row["model"]), str(row["dataset"]), str(row["method"]))
            variant = "/".join(str(_plain(row.get(name))) for name in of_variant) if automatic.iloc[index] else ""
            setting = tuple(_plain(row.get(name)) for name in varying)
            cell = cells.setdefault(
                (problem, variant or ("on" if automatic.iloc[index] else ""), float(row["lr"]), int(row["seed"])), {}
            )
            if setting in cell:
                doubled += 1
                continue
            finished = row["status"] == "finished"
            costs = costs_of(values[index : index + 1], objectives)[0] if finished and scored[index] else None
            cell[setting] = (row, costs, costs is not None or row["status"] in ("diverged", "stopped"))
    notes = (
        [f"{counted(doubled, 'trial')} repeated another one's settings and seed and was left out"] if doubled else []
    )
    expected: dict[Problem, dict[Setting, None]] = defaultdict(dict)
    for (problem, *_), cell in cells.items():
        expected[problem].update(dict.fromkeys(cell))
    units = []
    for (problem, variant, lr, seed), cell in cells.items():
        units.append(
            Unit(
                problem,
                variant,
                lr,
                seed,
                costs={setting: costs for setting, (_, costs, judged) in cell.items() if judged},
                missing=tuple(item for item in expected[problem] if item not in cell or not cell[item][2]),
                train_seconds={
                    setting: _seconds(row) for setting, (row, costs, _) in cell.items() if costs is not None
                },
                rows={setting: row for setting, (row, *_) in cell.items()},
            )
        )
    incomplete = sum(bool(unit.missing) for unit in units)
    if incomplete:
        notes.append(f"{counted(incomplete, 'front')} of {len(units)} lack a trial and do not count")
    return LrGrid(tuple(units), varying, tuple(notes))


def _automatic(trials: pd.DataFrame) -> pd.Series:
    if "auto_lr" not in trials.columns:
        return pd.Series(False, index=trials.index)
    return trials["auto_lr"] == "on"


def _seconds(row: pd.Series) -> float:
    return float(row["train_seconds"]) if "train_seconds" in row.index else math.nan


def _plain(value: object) -> object:
    """A cell as Python's own value; None for a missing one, so that equal settings are equal."""
    if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
        return None
    return value.item() if isinstance(value, np.generic) else value
