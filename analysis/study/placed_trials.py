"""What every trial of a sweep stands for: its case, its learning-rate policy, its setting and its seed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.errors import AnalysisError
from analysis.tables.columns import Columns
from analysis.tables.objectives import Floats, Objective, scored
from analysis.tables.trial_table import ATTAIN_NOTHING, TrialTable, auto_lr_on
from analysis.words import auto_lr_variant, counted, known

Setting = tuple[object, ...]
"""What a person varies besides the learning rate: c, and any other option or field in which trials differ."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is unlearned by what: the model, the data set and the method."""

    model: str
    dataset: str
    method: str

    def __str__(self) -> str:
        return f"{self.method} on {self.model}, {self.dataset}"


@dataclass(frozen=True, slots=True, eq=False)
class PlacedTrial:
    """One trial in its place.

    Attributes:
        variant: AutoLR's, such as ``clip/fresh``; empty for a fixed learning rate.
        lr: the fixed learning rate, or AutoLR's start; None where a table from elsewhere does not say.
        seed: None where a table from elsewhere does not say.
        costs: shape (m,), in [0, 1], of a finished trial with all objectives; else None.
        row: the row of the trial table.
    """

    case: Case
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
        return float(self.row.get("train_seconds", math.nan))


@dataclass(frozen=True, slots=True, eq=False)
class PlacedTrials:
    """Every trial in its place; ``setting_columns`` make a setting, ``notes`` say what was left out."""

    trials: tuple[PlacedTrial, ...]
    setting_columns: tuple[str, ...]
    columns: Columns
    notes: tuple[str, ...]


def placed_trials(parts: Sequence[tuple[TrialTable, Sequence[Objective]]]) -> PlacedTrials:
    """The trials of one or several sweeps, each with its own objectives (and thus bounds).

    Of two trials in the same place the first counts; a trial without a seed is a run of its own.

    Raises:
        AnalysisError: sweeps with different objectives, or a table without a column of them.
    """
    names = {tuple((objective.column, objective.direction) for objective in objectives) for _, objectives in parts}
    if len(names) > 1:
        raise AnalysisError("the sweeps have different objectives: their hypervolumes do not compare")
    merged = TrialTable.merge([table for table, _ in parts])
    varying = tuple(name for name in merged.varying if _makes_a_setting(merged, name))
    of_variant = _numbers_of_variants(merged)
    found: dict[tuple[object, ...], PlacedTrial] = {}
    doubled = 0
    for table, objectives in parts:
        automatic = auto_lr_on(table.trials).tolist()
        usable, costs = scored(table.trials, objectives)
        for index, (_, row) in enumerate(table.trials.iterrows()):
            variant = (auto_lr_variant(row, of_variant) or "on") if automatic[index] else ""
            case = Case(str(row["model"]), str(row["dataset"]), str(row["method"]))
            setting = tuple(known(row.get(name)) for name in varying)
            lr, seed = known(row["lr"]), known(row["seed"])
            place = (
                *(case, variant, float(lr) if isinstance(lr, (int, float)) else None, setting),
                int(seed) if isinstance(seed, (int, float)) else None,
            )
            key = (*place, len(found) if seed is None else None)
            if key in found:
                doubled += 1
            else:
                found[key] = PlacedTrial(*place, costs[index] if usable[index] else None, row)
    repeated = f"{counted(doubled, 'trial')} repeated the settings and seed of another and did not count"
    return PlacedTrials(tuple(found.values()), varying, merged.columns, (repeated,) if doubled else ())


def _makes_a_setting(table: TrialTable, name: str) -> bool:
    """Whether trials that differ here are different trials of one case, and not the same trial made otherwise."""
    if name in ("model", "dataset", "method", "lr", "seed") or name.startswith("target_"):
        return False
    return table.columns[name].role in ("method", "training", "data")


def _numbers_of_variants(table: TrialTable) -> tuple[str, ...]:
    """AutoLR's options beside those in words, where its trials differ in them."""
    trials = table.trials[auto_lr_on(table.trials)]
    options = [name for name in table.spec_columns if table.columns[name].role == "auto_lr" and name != "auto_lr"]
    # A truth value among them only says what is logged.
    return tuple(name for name in options if trials[name].dtype.kind in "if" and trials[name].nunique() > 1)
