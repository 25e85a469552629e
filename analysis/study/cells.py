"""What every trial of a sweep stands for: its problem, its learning-rate policy, its setting and its seed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.errors import AnalysisError
from analysis.frontier.trade_off import Floats, Objective, costs_of, measured, values_of
from analysis.tables.trial_table import ATTAIN_NOTHING, TrialTable
from analysis.words import counted

Setting = tuple[object, ...]
"""What a person varies besides the learning rate: c, and any other option or field in which trials differ."""

_VARIANT = ("auto_lr_smoothing", "auto_lr_probe", "auto_lr_probe_batches", "auto_lr_every", "auto_lr_start")
_NO_SETTING = frozenset(
    {"model", "dataset", "method", "lr", "auto_lr", "seed", "target_key", "model_path", "target_path", "data_dir"}
    | {"target_epochs", "target_lr", "target_batch_size", "eval_batch_size", "metrics", "metrics_every"}
    | {"auto_lr_log_forget", *_VARIANT}
)


@dataclass(frozen=True, slots=True)
class Problem:
    """What is unlearned by what: the model, the data set and the method."""

    model: str
    dataset: str
    method: str


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """One trial in its place.

    Attributes:
        variant: AutoLR's, such as ``clip/fresh``; empty for a fixed learning rate.
        lr: the fixed learning rate, or AutoLR's start; None where a table from elsewhere does not say.
        seed: None where a table from elsewhere does not say.
        costs: shape (m,), in [0, 1], of a finished trial with all objectives; else None.
        row: the row of the trial table.
    """

    problem: Problem
    variant: str
    lr: float | None
    setting: Setting
    seed: int | None
    costs: Floats | None
    row: pd.Series

    @property
    def judged(self) -> bool:
        """Whether the trial has an outcome: it is scored, or it diverged or was stopped and so attains nothing."""
        return self.costs is not None or self.row["status"] in ATTAIN_NOTHING

    @property
    def train_seconds(self) -> float:
        """Time in training; NaN where not recorded."""
        return float(self.row["train_seconds"]) if "train_seconds" in self.row.index else math.nan


def group_cells(
    parts: Sequence[tuple[TrialTable, Sequence[Objective]]],
) -> tuple[tuple[str, ...], list[Cell], list[str]]:
    """The columns that make a setting, a cell for every trial, and what was left out, in sentences.

    Of two trials in the same place the first counts; a trial without a seed is a run of its own.

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
    cells: dict[tuple[object, ...], Cell] = {}
    doubled = 0
    for table, objectives in parts:
        automatic = _automatic(table.trials).to_numpy()
        values = values_of(table.trials, objectives) if objectives else np.empty((len(table.trials), 0))
        scored = measured(values) if objectives else np.zeros(len(values), dtype=bool)
        for index, (_, row) in enumerate(table.trials.iterrows()):
            variant = (_variant(row, of_variant) or "on") if automatic[index] else ""
            problem = Problem(str(row["model"]), str(row["dataset"]), str(row["method"]))
            setting = tuple(_plain(row.get(name)) for name in varying)
            lr, seed = _known(row["lr"]), _known(row["seed"])
            place = (problem, variant, lr, setting, None if seed is None else int(seed))
            key = (*place, len(cells) if seed is None else None)
            if key in cells:
                doubled += 1
                continue
            usable = scored[index] and row["status"] == "finished"
            costs = costs_of(values[index : index + 1], objectives)[0] if usable else None
            cells[key] = Cell(*place, costs, row)
    notes = [f"{counted(doubled, 'trial')} repeated the settings and seed of another and did not count"]
    return varying, list(cells.values()), notes if doubled else []


def _variant(row: pd.Series, columns: Sequence[str]) -> str:
    return "/".join(str(value) for name in columns if (value := _plain(row.get(name))) is not None)


def _known(value: object) -> float | None:
    number = _plain(value)
    return float(number) if isinstance(number, (int, float)) else None


def _automatic(trials: pd.DataFrame) -> pd.Series:
    if "auto_lr" not in trials.columns:
        return pd.Series(False, index=trials.index)
    return trials["auto_lr"] == "on"


def _plain(value: object) -> object:
    """A cell as Python's own value; None for a missing one, so that equal settings are equal."""
    if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
        return None
    return value.item() if isinstance(value, np.generic) else value
