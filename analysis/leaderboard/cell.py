"""Reduce the finished sweep of one cell of a leaderboard to one row.

A cell is a method on a problem with one training seed. Its sweep searches with a stated budget, and the configuration
that it recommends is trained again on fresh training seeds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.errors import AnalysisError
from analysis.frontier.choice import choose_model
from analysis.frontier.confirmation import fresh_results
from analysis.frontier.criterion import Criterion, Role
from analysis.frontier.frontier import hypervolume
from analysis.tables.columns import Columns
from analysis.tables.sources import Sources, read_source
from analysis.tables.trade_off import costs_of, measured, values_of
from analysis.tables.trial_table import numbers
from search_spaces.common.objective import Objective
from search_spaces.common.values import as_float

KEY = ("method", "model", "dataset", "forget_split", "seed")
"""The columns that identify a cell."""
MEASURES = ("success", "hypervolume", "hypervolume_after_attack", "equal_retention")
"""The columns by which methods are ranked. Larger values are better."""
COLUMNS = (
    *KEY,
    *("epoch_budget", "epochs", "trials", "outcome", "trial_id", "fresh_runs", "fresh_met"),
    *MEASURES,
    *("axes", "attacks", "unmeasured", "seconds", "seeds_vary"),
)
"""The columns of cells.csv. ``unmeasured`` is the number of stored models on which a measurement or attack failed, and
``seeds_vary`` says what a seed changes: "target", or only the "order" of the data."""


def cell_row(folder: Path) -> dict[str, object]:
    """Return the results of the finished sweep in a folder: the columns of :data:`COLUMNS`, without those of the key.

    - ``success``: the share of the fresh runs of the recommended configuration that meet the criterion; 0 if the sweep
      recommends no model; NaN if the sweep made no fresh runs. Runners-up do not count, because they are chosen by
      their fresh runs.
    - ``hypervolume``: the share of the unit square that the measured models dominate. The axes are the score of the
      criterion that says how much is forgotten, and the score that says how much is kept.
    - ``hypervolume_after_attack``: the same, if each model tells as much as after the attack that elicits most; NaN
      without attacks, or if an attack has no result on any model, because a missing attack would look like resistance.
    - ``equal_retention``: how much the best mixed model forgets, as a share of its axis; NaN without mixed models. A
      mixed model is the last model of a trial with ``--interpolate on``. It is a mean of the trial's last weights and
      the target's weights that keeps 80% of the target's quality on retained examples. Wang et al. (2024,
      arXiv:2406.09179) compare methods at equal retention by mixing towards the target in this way.

    Raises:
        AnalysisError: the folder has no finished sweep.
    """
    source = read_source(folder)
    table, sweep = source.table, source.sweep
    choice = choose_model(table, sweep)
    results = fresh_results(table.fresh, choice.criterion)
    first = results[0] if results else None
    success = first.met / first.runs if first else 0.0 if not choice.recommended else math.nan
    axes = _axes(choice.criterion, table.columns)
    models = table.models.trials
    attacks = _attacks_on(axes[0], table.columns, models, sweep.baseline)
    attacked = _attacked(models, axes[0], attacks)
    return {
        "epoch_budget": sweep.settings.get("epoch_budget"),
        "epochs": _epochs(source),
        "trials": len(table.searched),
        "outcome": str(choice.outcome),
        "trial_id": first.trial_id if first else "",
        "fresh_runs": first.runs if first else 0,
        "fresh_met": first.met if first else 0,
        "success": success,
        "hypervolume": _volume(models, axes),
        "hypervolume_after_attack": _volume(attacked, axes) if attacked is not None else math.nan,
        "equal_retention": _equal_retention(table.finished, axes[0]),
        "axes": " ".join(item.column for item in axes),
        "attacks": " ".join(attacks),
        "seeds_vary": sweep.seeds_vary,
        "seconds": round(float(sum(numbers(rows, "train_seconds").sum() for rows in (table.trials, table.fresh))), 1),
    }


def _axes(criterion: Criterion, columns: Columns) -> tuple[Objective, Objective]:
    axes = []
    for role in (Role.FORGET, Role.KEEP):
        names = [item.column for item in criterion.requirements if item.role is role]
        found = [objective for name in names if (objective := columns.objective(name))]
        if not found:
            raise AnalysisError(f"the criterion has no bounded score with the role '{role}': expected one as an axis")
        axes.append(found[0])
    return axes[0], axes[1]


def _epochs(source: Sources) -> float:
    """Return the number of epochs that the search has trained."""
    return float(numbers(source.table.trials, "epochs_done").sum())


def _volume(models: pd.DataFrame, axes: Sequence[Objective]) -> float:
    names = {item.column for item in axes}
    if not names <= set(models.columns):
        return 0.0
    values = values_of(models, axes)
    values = values[measured(values)]
    return hypervolume(costs_of(values, axes)) if len(values) else 0.0


def _attacks_on(
    axis: Objective, columns: Columns, models: pd.DataFrame, baseline: Mapping[str, object]
) -> tuple[str, ...]:
    """Return the columns of the attacked score that the target or a model has."""
    attacked = [name for name, column in columns.entries.items() if column.attacked == axis.column]
    return tuple(
        name
        for name in attacked
        if np.isfinite(as_float(baseline.get(name))) or np.isfinite(numbers(models, name)).any()
    )


def _attacked(models: pd.DataFrame, axis: Objective, attacks: Sequence[str]) -> pd.DataFrame | None:
    """Return the models with the most that any attack elicits as the forget score, or NaN if an attack is missing.

    The result is None without attacks, or if no measured model has the results of all attacks.
    """
    scores = pd.concat([numbers(models, name) for name in (axis.column, *attacks)], axis=1)
    is_finite = pd.DataFrame(np.isfinite(scores.to_numpy()), index=scores.index, columns=scores.columns)
    complete = is_finite.all(axis=1)
    if not attacks or (is_finite[axis.column].any() and not complete.any()):
        return None
    worst = scores.max(axis=1) if axis.direction == "min" else scores.min(axis=1)
    return models.assign(**{axis.column: worst.where(complete)})


def _equal_retention(finished: pd.DataFrame, axis: Objective) -> float:
    if "interpolate" not in finished or axis.column not in finished:
        return math.nan
    mixed = finished[(finished["interpolate"] == "on").to_numpy()]
    values = values_of(mixed, [axis])
    values = values[measured(values)]
    return float(1.0 - costs_of(values, [axis]).min()) if len(values) else math.nan


def with_key(row: Mapping[str, object], **key: object) -> dict[str, object]:
    """Return a row of cells.csv in the order of :data:`COLUMNS`."""
    merged = {**key, **row}
    return {name: merged.get(name) for name in COLUMNS}
