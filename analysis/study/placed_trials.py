"""What every trial of a sweep stands for: its case, its learning-rate policy, its setting and its seed."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from analysis.errors import AnalysisError
from analysis.frontier.indicators import further_objectives
from analysis.tables.columns import Columns, short
from analysis.tables.trade_off import Floats, Objective, scored
from analysis.tables.trial_table import TrialTable, auto_lr_on
from analysis.words import PROBE_BATCHES, auto_lr_variant, counted, known, number

Setting = tuple[object, ...]
"""What a person varies besides the learning rate: c, and any other option or field in which trials differ."""
_STRUCTURE = ("model", "dataset", "method", "lr", "seed")


@dataclass(frozen=True, slots=True)
class Case:
    """What is unlearned by what: the model, the data set and the method.

    Attributes:
        apart: the data and training in which the problem differs from others on the same model and data set, such as
            ``epochs 3, batch size 8``; empty where there is no other, and where trials are not placed by problem.
    """

    model: str
    dataset: str
    method: str
    apart: str = ""

    def __str__(self) -> str:
        return f"{self.method} on {self.place}"

    @property
    def place(self) -> str:
        """The problem."""
        return f"{self.model}, {self.dataset}{self._brackets}"

    @property
    def what(self) -> str:
        """The method, with what sets its problem apart."""
        return f"{self.method}{self._brackets}"

    @property
    def names(self) -> tuple[str, ...]:
        """Its parts, for the name of a file."""
        return tuple(filter(None, (self.model, self.dataset, self.method, self.apart)))

    @property
    def _brackets(self) -> str:
        return f" ({self.apart})" if self.apart else ""


@dataclass(frozen=True, slots=True, eq=False)
class PlacedTrial:
    """One trial in its place.

    Attributes:
        variant: AutoLR's, such as ``clip/fresh``; empty for a fixed learning rate.
        lr: the fixed learning rate, or AutoLR's start; None where a table from elsewhere does not say.
        seed: None where a table from elsewhere does not say.
        costs: shape (m,), in [0, 1], of a finished trial with all objectives; else None.
        row: the row of the trial table.
        further: its costs in other boxes, by the box's name (:func:`analysis.frontier.indicators.further_objectives`).
    """

    case: Case
    variant: str
    lr: float | None
    setting: Setting
    seed: int | None
    costs: Floats | None
    row: pd.Series
    further: Mapping[str, Floats | None] = field(default_factory=dict)

    @property
    def judged(self) -> bool:
        """Whether the trial has an outcome: it is scored, or it diverged and so attains nothing.

        One that failed or was stopped, by a user or a scheduler, says nothing of how its setting ends.
        """
        return self.costs is not None or self.diverged

    @property
    def diverged(self) -> bool:
        """Whether its loss was not finite, so that there is no model."""
        return bool(self.row["status"] == "diverged")

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


def placed_trials(
    parts: Sequence[tuple[TrialTable, Sequence[Objective]]], *, by_problem: bool = False, seeds_vary: str = "order"
) -> PlacedTrials:
    """The trials of one or several sweeps, each with its own objectives (and thus bounds).

    Of two trials in the same place the first counts, settings compared by nine digits; a trial without a seed is a run
    of its own. ``by_problem``: other data or other training (target, split, epochs, batch size, optimizer, ...) make
    another case, not another setting; only not another target or other data where that is what ``seeds_vary``.

    Raises:
        AnalysisError: sweeps with different objectives, or a table without a column of them.
    """
    names = {tuple((objective.column, objective.direction) for objective in objectives) for _, objectives in parts}
    if len(names) > 1:
        raise AnalysisError("the sweeps have different objectives: their hypervolumes do not compare")
    merged = TrialTable.merge([table for table, _ in parts])
    problems = _Problems(merged, seeds_vary) if by_problem else None
    varying = tuple(name for name in merged.varying if _makes_a_setting(merged, name, by_problem=by_problem))
    of_variant = _numbers_of_variants(merged)
    found: dict[tuple[object, ...], PlacedTrial] = {}
    doubled = 0
    for table, objectives in parts:
        automatic = auto_lr_on(table.trials).tolist()
        usable, costs = scored(table.trials, objectives)
        boxes = further_objectives(objectives, merged.columns, merged.measured(merged.columns.metrics))
        elsewhere = {name: scored(table.trials, box) for name, box in boxes.items()}
        for index, (_, row) in enumerate(table.trials.iterrows()):
            variant = (auto_lr_variant(row, of_variant) or "on") if automatic[index] else ""
            apart = problems.apart(row) if problems else ""
            case = Case(str(row["model"]), str(row["dataset"]), str(row["method"]), apart)
            setting = tuple(_nominal(known(row.get(name))) for name in varying)
            lr, seed = _nominal(known(row["lr"])), known(row["seed"])
            place = (
                *(case, variant, float(lr) if isinstance(lr, (int, float)) else None, setting),
                int(seed) if isinstance(seed, (int, float)) else None,
            )
            key = (*place, len(found) if seed is None else None)
            if key in found:
                doubled += 1
            else:
                further = {name: other[index] if there[index] else None for name, (there, other) in elsewhere.items()}
                found[key] = PlacedTrial(*place, costs[index] if usable[index] else None, row, further)
    repeated = f"{counted(doubled, 'trial')} repeated the settings and seed of another and did not count"
    notes = ((repeated,) if doubled else ()) + (problems.notes if problems else ())
    return PlacedTrials(tuple(found.values()), varying, merged.columns, notes)


def _nominal(value: Hashable) -> Hashable:
    """A setting as it was meant: numbers that agree in nine digits are one, such as 0.0003 and 3 * 0.0001."""
    return float(f"{value:.9g}") if isinstance(value, float) else value


class _Problems:
    """By model and data set the columns of data and training in which its trials differ.

    ``target_key`` names a target by a hash: it is left out where the other columns tell the problems apart as well.
    """

    def __init__(self, table: TrialTable, seeds_vary: str) -> None:
        asked = [name for name in table.varying if name not in _STRUCTURE and _of_a_problem(table, name)]
        asked = [name for name in asked if name not in _by_seed(table, seeds_vary)]
        self._differ: dict[tuple[str, str], list[str]] = {}
        own = table.own.trials
        for place in dict.fromkeys(zip(own["model"], own["dataset"], strict=True)):
            trials = own[(own["model"] == place[0]) & (own["dataset"] == place[1])]
            names = [name for name in asked if trials[name].nunique(dropna=False) > 1]
            others = [name for name in names if name != "target_key"]
            alike = len(trials[others].drop_duplicates()) if others else 1
            self._differ[place] = others if alike == len(trials[names].drop_duplicates()) else names

    def apart(self, row: pd.Series) -> str:
        """``epochs 3, batch size 8``."""
        names = self._differ.get((row["model"], row["dataset"]), [])
        given = ((short(name), known(row.get(name))) for name in names)
        return ", ".join(f"no {name}" if value is None else f"{name} {number(value)}" for name, value in given)

    @property
    def notes(self) -> tuple[str, ...]:
        """What differs, in a sentence for each model and data set."""
        return tuple(
            f"the trials on {', '.join(place)} differ in {' and '.join(short(name) for name in names)}: these are "
            "different problems, and nothing is pooled over them"
            for place, names in self._differ.items()
            if names
        )


def _by_seed(table: TrialTable, seeds_vary: str) -> tuple[str, ...]:
    """The columns that the seeds vary, of one problem: nothing where a seed has several targets after all."""
    own = table.own.trials
    names = {"target": ("target_key", "target_seed"), "data": ("target_key", "data_seed")}.get(seeds_vary, ())
    places = own.groupby(["model", "dataset", "seed"], dropna=False)
    alone = all((places[name].nunique(dropna=False) <= 1).all() for name in names if name in own)
    return names if alone else ()


def _of_a_problem(table: TrialTable, name: str) -> bool:
    return table.columns[name].role in ("training", "data")


def _makes_a_setting(table: TrialTable, name: str, *, by_problem: bool) -> bool:
    """Whether trials that differ here are different trials of one case, and not the same trial made otherwise."""
    if name in _STRUCTURE or name.startswith("target_"):
        return False
    return table.columns[name].role == "method" or (not by_problem and _of_a_problem(table, name))


def _numbers_of_variants(table: TrialTable) -> tuple[str, ...]:
    """AutoLR's options beside those in words, where its trials differ in them."""
    trials = table.trials[auto_lr_on(table.trials)]
    options = [name for name in table.spec_columns if table.columns[name].role == "auto_lr"]
    options = [name for name in options if name not in ("auto_lr", PROBE_BATCHES)]
    # A truth value among them only says what is logged.
    return tuple(name for name in options if trials[name].dtype.kind in "if" and trials[name].nunique() > 1)
