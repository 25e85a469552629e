"""What every trial of a sweep stands for: its case, its learning-rate policy, its setting and its seed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from analysis.errors import AnalysisError
from analysis.frontier.indicators import further_objectives
from analysis.tables.columns import Columns
from analysis.tables.problems import STRUCTURE, Problem, Problems, problems_of
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trade_off import Floats, Mask, Objective, scored, widest
from analysis.tables.trial_table import TrialTable, auto_lr_on
from analysis.words import PROBE_BATCHES, auto_lr_variant, counted, known, nominal

_SHOWN = 3
"""Of trials alike so many are named."""
Setting = tuple[object, ...]
"""What a person varies besides the learning rate: c, and any other option or field in which trials differ."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is unlearned by what: the model, the data set and the method.

    Attributes:
        apart: the data and training in which the problem differs from others on the same model and data set, such as
            ``epochs 3, batch size 8``; empty where there is no other.
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
        return str(self.problem)

    @property
    def problem(self) -> Problem:
        """What is unlearned, by whatever method."""
        return Problem(self.model, self.dataset, self.apart)

    @property
    def what(self) -> str:
        """The method, with what sets its problem apart."""
        return f"{self.method} ({self.apart})" if self.apart else self.method

    @property
    def names(self) -> tuple[str, ...]:
        """Its parts, for the name of a file."""
        return tuple(filter(None, (self.model, self.dataset, self.method, self.apart)))


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
    """Every trial in its place; ``setting_columns`` make a setting, ``notes`` say what was left out.

    ``problems`` are those of all trials that were read, also of what was left out.
    """

    trials: tuple[PlacedTrial, ...]
    setting_columns: tuple[str, ...]
    columns: Columns
    notes: tuple[str, ...]
    problems: Problems


def placed_trials(
    parts: Sequence[tuple[TrialTable, Sequence[Objective]]],
    sweep: SweepFile | None = None,
    *,
    roles: Sequence[str] = ("data",),
    seeds_vary: str = "order",
) -> PlacedTrials:
    """The trials of one or several sweeps, each with its own objectives (and thus bounds).

    Of two trials in the same place the first counts, settings compared by nine digits; a trial without a seed is a run
    of its own. Trials are cases of their own where they differ in a column of ``roles`` (target, split, ...; with
    ``training`` also epochs, batch size, optimizer, ...), as :func:`analysis.tables.problems.problems_of` finds it by
    ``sweep``, and only not in what ``seeds_vary``. Those of one problem are scored in one box, the widest of their
    sweeps, and in no other's.

    Raises:
        AnalysisError: sweeps with different objectives, or a table without a column of them.
    """
    names = {tuple((objective.column, objective.direction) for objective in objectives) for _, objectives in parts}
    if len(names) > 1:
        raise AnalysisError("the sweeps have different objectives: their hypervolumes do not compare")
    merged = TrialTable.merge([table for table, _ in parts])
    problems = problems_of(merged, sweep, roles=roles, seeds_vary=seeds_vary)
    varying = tuple(name for name in merged.varying if _makes_a_setting(merged, name, roles))
    of_variant = _numbers_of_variants(merged)
    found: dict[tuple[object, ...], PlacedTrial] = {}
    repeated: list[tuple[pd.Series, pd.Series]] = []
    scores, automatics = _costs(parts, merged, problems.of), auto_lr_on(merged.trials)
    for (_, row), problem, (own, further), automatic in zip(
        merged.trials.iterrows(), problems.of, scores, automatics, strict=True
    ):
        variant = (auto_lr_variant(row, of_variant) or "on") if automatic else ""
        case = Case(problem.model, problem.dataset, str(row["method"]), problem.apart)
        setting = tuple(nominal(row.get(name)) for name in varying)
        lr, seed = nominal(row["lr"]), known(row["seed"])
        place = (
            *(case, variant, float(lr) if isinstance(lr, (int, float)) else None, setting),
            int(seed) if isinstance(seed, (int, float)) else None,
        )
        key = (*place, len(found) if seed is None else None)
        if key in found:
            repeated.append((found[key].row, row))
        else:
            found[key] = PlacedTrial(*place, own, row, further)
    notes = (_repeated(repeated, merged.columns),) if repeated else ()
    return PlacedTrials(tuple(found.values()), varying, merged.columns, notes, problems)


def _repeated(pairs: Sequence[tuple[pd.Series, pd.Series]], columns: Columns) -> str:
    """What became of trials in the place of an earlier one, as pairs of that one and them: whether it matters."""
    told = ("status", *columns.outcomes)
    otherwise = [
        f"{_named(first, later)} counts and not {_named(later, first)}"
        for first, later in pairs
        if any(nominal(first.get(name)) != nominal(later.get(name)) for name in told)
    ]
    shown = "; ".join(otherwise[:_SHOWN]) + (f"; and {len(otherwise) - _SHOWN} more" if otherwise[_SHOWN:] else "")
    ended = f"{len(otherwise)} ended otherwise: {shown}" if otherwise else "none ended otherwise"
    return f"{counted(len(pairs), 'trial')} repeated the settings and seed of another and did not count; {ended}"


def _named(trial: pd.Series, other: pd.Series) -> str:
    """Its id, with its sweep where the other has the same."""
    name = str(trial["trial_id"])
    return f"{trial['sweep']}/{name}" if name == other["trial_id"] else name


def _costs(
    parts: Sequence[tuple[TrialTable, Sequence[Objective]]], merged: TrialTable, problems: Sequence[Problem]
) -> list[tuple[Floats | None, dict[str, Floats | None]]]:
    """Of each trial of ``merged`` its costs in the box of its problem, shape (m,), and in the further boxes by name."""
    of_part = np.repeat(np.arange(len(parts)), [len(table.trials) for table, _ in parts])
    scores = merged.measured(merged.columns.metrics)
    found: list[tuple[Floats | None, dict[str, Floats | None]]] = [(None, {})] * len(problems)
    for problem in dict.fromkeys(problems):
        places = [place for place, other in enumerate(problems) if other == problem]
        box = widest([parts[part][1] for part in sorted(set(of_part[places]))])
        rows = merged.trials.iloc[places]
        boxes = {"": box} | further_objectives(box, merged.columns, scores)
        costs = {name: _rows_of(*scored(rows, axes)) for name, axes in boxes.items()}
        for index, place in enumerate(places):
            here = {name: lines[index] for name, lines in costs.items()}
            found[place] = here.pop(""), here
    return found


def _rows_of(known: Mask, costs: Floats) -> list[Floats | None]:
    return [line if there else None for line, there in zip(costs, known, strict=True)]


def _makes_a_setting(table: TrialTable, name: str, roles: Sequence[str]) -> bool:
    """Whether trials that differ here are different trials of one case, and not the same trial made otherwise."""
    role = table.columns[name].role
    return name not in STRUCTURE and (role == "method" or (role == "training" and role not in roles))


def _numbers_of_variants(table: TrialTable) -> tuple[str, ...]:
    """AutoLR's options beside those in words, where its trials differ in them."""
    trials = table.trials[auto_lr_on(table.trials)]
    options = [name for name in table.spec_columns if table.columns[name].role == "auto_lr"]
    options = [name for name in options if name not in ("auto_lr", PROBE_BATCHES)]
    # A truth value among them only says what is logged.
    return tuple(name for name in options if trials[name].dtype.kind in "if" and trials[name].nunique() > 1)
