"""The units of a learning-rate study: one front over c per (seed, model, data set, method, learning rate or AutoLR).

Points of one front are not independent samples; its hypervolume is the one number a seed contributes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.frontier.frontier import hypervolume
from analysis.study.placed_trials import Case, PlacedTrial, Setting, placed_trials
from analysis.tables.columns import Columns
from analysis.tables.trade_off import Floats, Objective
from analysis.tables.trial_table import TrialTable
from analysis.words import counted


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """One front over the settings.

    Attributes:
        variant: AutoLR's, such as ``clip/fresh``; empty for a fixed learning rate.
        lr: the fixed learning rate, or AutoLR's start.
        trials: per setting its trial.
        missing: settings of the case that have no outcome here (not run, stopped, failed, or a metric is missing).
    """

    case: Case
    variant: str
    lr: float
    seed: int
    trials: Mapping[Setting, PlacedTrial]
    missing: tuple[Setting, ...]

    @property
    def costs(self) -> dict[Setting, Floats | None]:
        """Per setting with an outcome its costs, (m,), in [0, 1]; None for one that diverged: it adds nothing."""
        return {setting: trial.costs for setting, trial in self.trials.items() if trial.judged}

    @property
    def train_seconds(self) -> dict[Setting, float]:
        """Per setting of a finished trial its time in training; NaN where not recorded."""
        return {setting: trial.train_seconds for setting, trial in self.trials.items() if trial.costs is not None}

    @property
    def points(self) -> Floats:
        """The costs of the finished trials, shape (k, m)."""
        found = [costs for costs in self.costs.values() if costs is not None]
        return np.stack(found) if found else np.empty((0, 2))

    @property
    def hypervolume(self) -> float:
        """The share of the box that the front dominates; 0 if all trials diverged, NaN for an incomplete unit."""
        return math.nan if self.missing else hypervolume(self.points)

    def further_points(self, box: str) -> Floats | None:
        """The costs of the finished trials in another box, shape (k, m); None where one was not measured."""
        found = [trial.further.get(box) for trial in self.trials.values() if trial.costs is not None]
        there = [costs for costs in found if costs is not None]
        return None if len(there) < len(found) else np.stack(there) if there else np.empty((0, 2))

    def further_hypervolume(self, box: str) -> float:
        """The hypervolume in another box; NaN for an incomplete unit, and where a trial was not measured."""
        points = self.further_points(box)
        return math.nan if self.missing or points is None else hypervolume(points)


@dataclass(frozen=True, slots=True, eq=False)
class LrGrid:
    """All units.

    Attributes:
        setting_columns: what a :data:`Setting` holds, in order.
        notes: what was left out, in sentences.
        boxes: the names of the other boxes in which the units are looked at.
        seeds_vary: what the seeds vary, ``order``, ``target`` or ``data``: all else a verdict is conditional on.
    """

    units: tuple[Unit, ...]
    setting_columns: tuple[str, ...]
    columns: Columns
    notes: tuple[str, ...]
    boxes: tuple[str, ...] = ()
    seeds_vary: str = "order"

    @property
    def cases(self) -> tuple[Case, ...]:
        """Every case, in the order of the table."""
        return tuple(dict.fromkeys(unit.case for unit in self.units))

    def variants(self, case: Case) -> tuple[str, ...]:
        """AutoLR's variants that were run on a case."""
        return tuple(dict.fromkeys(unit.variant for unit in self.units if unit.case == case and unit.variant))

    def arm(self, case: Case, variant: str = "") -> dict[float, dict[int, Unit]]:
        """The units of fixed learning rates, or of one AutoLR variant: by learning rate (rising), then by seed."""
        found: dict[float, dict[int, Unit]] = defaultdict(dict)
        for unit in self.units:
            if unit.case == case and unit.variant == variant:
                found[unit.lr][unit.seed] = unit
        return {lr: dict(sorted(found[lr].items())) for lr in sorted(found)}


def lr_grid(parts: Sequence[tuple[TrialTable, Sequence[Objective]]], *, seeds_vary: str = "order") -> LrGrid:
    """The units in the tables of one or several sweeps, each with its own objectives (and thus bounds).

    Of two trials of the same unit and setting the first counts. Trials on other data, or trained otherwise, are cases
    of their own: nothing is pooled over different problems, unless they are what ``seeds_vary``.

    Raises:
        AnalysisError: sweeps with different objectives, or a table without a column of them.
    """
    placed = placed_trials(parts, roles=("data", "training"), seeds_vary=seeds_vary)
    notes = [*placed.notes, *placed.problems.notes]
    fronts: dict[tuple[Case, str, float, int], dict[Setting, PlacedTrial]] = {}
    apart = 0
    for item in placed.trials:
        if item.lr is None or item.seed is None:
            apart += 1
            continue
        fronts.setdefault((item.case, item.variant, item.lr, item.seed), {})[item.setting] = item
    if apart:
        notes.append(f"{counted(apart, 'trial')} without a learning rate or a seed did not count")
    expected: dict[Case, dict[Setting, None]] = defaultdict(dict)
    for (case, *_), front in fronts.items():
        expected[case].update(dict.fromkeys(front))
    units = [
        Unit(*place, front, tuple(item for item in expected[place[0]] if item not in front or not front[item].judged))
        for place, front in fronts.items()
    ]
    incomplete = sum(bool(unit.missing) for unit in units)
    if incomplete:
        notes.append(
            f"{counted(incomplete, 'front')} of {len(units)} {'lacks' if incomplete == 1 else 'lack'} a trial and "
            f"{'does' if incomplete == 1 else 'do'} not count{_stopped(fronts.values())}"
        )
    boxes = tuple(dict.fromkeys(name for item in placed.trials for name in item.further))
    return LrGrid(tuple(units), placed.setting_columns, placed.columns, tuple(notes), boxes, seeds_vary)


def _stopped(fronts: Iterable[Mapping[Setting, PlacedTrial]]) -> str:
    """How many trials were ended before they had an outcome; "" for none."""
    count = sum(trial.row["status"] == "stopped" for front in fronts for trial in front.values())
    return f"; {counted(count, 'trial')} stopped early say nothing of how they would have ended" if count else ""
