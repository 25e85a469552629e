"""Select a model of a sweep by a rule, by limits on columns, or by the best value in a column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.errors import AnalysisError
from analysis.frontier.criterion import Criterion, Role, criterion_of
from analysis.frontier.frontier import has_begun_unlearning, selectable_models
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trade_off import scored
from analysis.tables.trial_table import TrialTable, numbers
from analysis.words import number
from search_spaces.common.messages import columns_hint, counted
from search_spaces.common.objective import Objective
from search_spaces.constraint import Constraint

KNEE, CONSTRAINT, SUCCESS, BUDGET = "knee", "constraint", "success", "budget"
"""``KNEE`` selects the frontier model that is nearest to the ideal corner. ``CONSTRAINT`` selects the model with the
best primary metric of the retain set. ``SUCCESS`` selects like ``CONSTRAINT``, but only from models that meet the
criterion. ``BUDGET`` selects the model that forgets most within the limits."""


class Best(NamedTuple):
    """A column to maximize or minimize. ``direction`` is ``max`` or ``min``."""

    column: str
    direction: str

    @property
    def words(self) -> str:
        """The goal as text, such as ``maximize utility``."""
        return f"{self.direction}imize {self.column}"


@dataclass(frozen=True, slots=True, eq=False)
class Pick:
    """The model that a rule selects.

    Attributes:
        eligible: the number of models from which the rule selected.
        noun: the word for a model in sentences: ``epoch`` if all epochs can be selected, otherwise ``trial``.
        by_criterion: whether only models that meet the criterion were eligible.
        best: the column by which the model was selected; None if it was selected by its distance from the ideal corner.
        value: the model's value in the column ``best``.
        distance: the distance from the ideal corner; None if the model was selected by a column.
    """

    row: pd.Series
    eligible: int
    noun: str
    limits: tuple[Constraint, ...] = ()
    by_criterion: bool = False
    best: Best | None = None
    value: float | None = None
    distance: float | None = None


class NothingQualifies(AnalysisError):
    """No model meets the limits and the rule."""


def pick(
    table: TrialTable,
    sweep: SweepFile,
    *,
    rule: str = KNEE,
    limits: Sequence[Constraint] = (),
    best: Best | None = None,
) -> Pick:
    """Select a model of a sweep by a rule.

    The candidates are the last epochs of finished trials and the epochs on the frontier. If ``best`` is given, the
    candidate with the best value in this column is selected, and the rule only restricts the candidates.

    Args:
        limits: thresholds that the selected model must meet.

    Raises:
        NothingQualifies: no trial has finished, or no candidate meets the limits and the rule.
        AnalysisError: the column of a limit or of ``best`` does not exist, or a limit is relative to an unknown score
            of the target.
    """
    objectives, columns = sweep.objectives, table.columns
    models = selectable_models(table, sweep).trials
    noun = "epoch" if table.every_epoch else "trial"
    if models.empty:
        raise NothingQualifies(f"no trial has finished ({counted(len(table.trials), 'trial')} in the table)")
    _check_columns(models, limits, best)
    rows = _apply_limits(models, limits, sweep, noun)
    # Epochs that have not begun to unlearn are left out, unless there are no other epochs.
    if table.every_epoch and best is None:
        rows = rows[has_begun_unlearning(rows, sweep)]
    criterion = criterion_of(sweep, table)
    if rule == SUCCESS:
        good_models = rows[criterion.is_good(rows)]
        if good_models.empty:
            bounds = ((item, item.bound(criterion.shared) or item.limit) for item in criterion.requirements)
            texts = [f"{item.column} {bound.format_bound()}" for item, bound in bounds if not item.preferred]
            raise NothingQualifies(
                f"none of {counted(len(rows), noun)}{_limits_text(limits)} meets the criterion"
                f"{': ' + ', '.join(texts) if texts else ', because no criterion applies'}"
            )
        rows = good_models
    # The metric of the retain set is compared before the metric of the forget set.
    primaries = columns.primaries(table.with_trials(rows).measured(columns.metrics))
    names = _forgetting(criterion) if rule == BUDGET else list(reversed(primaries))
    keys = [item for name in names if (item := columns.objective(name))]
    scores: Sequence[Objective | Best] = ()
    if best is not None:
        scores = [best]
        has_value = np.isfinite(numbers(rows, best.column))
        if not has_value.any():
            raise NothingQualifies(f"no {noun}{_limits_text(limits)} has a number in the column {best.column}")
        rows = rows[has_value]
    elif keys and (rule == BUDGET or (rule != KNEE and columns[keys[0].column].of == "retain")):
        scores = keys
        best = Best(keys[0].column, keys[0].direction)
    distances = np.linalg.norm(scored(rows, objectives)[1], axis=1)
    if best is None and not np.isfinite(distances).any():
        raise NothingQualifies(f"no {noun}{_limits_text(limits)} has a value for each objective")
    costs = [numbers(rows, item.column) * (-1 if item.direction == "max" else 1) for item in scores]
    # The last key of lexsort is the primary key. NaN comes last.
    order = np.lexsort([rows["step"].to_numpy(), rows["trial_id"].to_numpy(), distances, *reversed(costs)])
    row = rows.iloc[int(order[0])]
    result = Pick(row, len(rows), noun, tuple(limits), by_criterion=rule == SUCCESS)
    if best is None:
        return replace(result, distance=float(distances[order[0]]))
    return replace(result, best=best, value=float(row[best.column]))


def _forgetting(criterion: Criterion) -> list[str]:
    """Return the columns that show how much a model forgets: those of the criterion, then the losses."""
    columns = criterion.columns
    required = [item.column for item in criterion.requirements if item.role is Role.FORGET]
    losses = [name for name in columns.entries if columns.is_loss(name) and columns[name].of == "forget"]
    return [*required, *reversed(losses)]


def _limits_text(limits: Sequence[Constraint]) -> str:
    texts = [f"{item.name} {item.format_bound()}" for item in limits]
    return f" with {' and '.join(texts)}" if texts else ""


def _check_columns(models: pd.DataFrame, limits: Sequence[Constraint], best: Best | None) -> None:
    needed = {f"the limit {limit}": limit.name for limit in limits}
    needed |= {best.words: best.column} if best is not None else {}
    unknown = {text: name for text, name in needed.items() if name not in models.columns}
    if unknown:
        texts = [f"{text} needs the column {name}" for text, name in unknown.items()]
        hint = columns_hint(tuple(unknown.values()), models.columns)
        raise AnalysisError(f"{'; '.join(texts)}: {hint}")


def _apply_limits(models: pd.DataFrame, limits: Sequence[Constraint], sweep: SweepFile, noun: str) -> pd.DataFrame:
    remaining = models
    for index, limit in enumerate(limits):
        if limit.relative and limit.name not in sweep.baseline:
            raise AnalysisError(f"the limit {limit} is relative to the target's {limit.name}, which was not measured")
        values = numbers(remaining, limit.name)
        baselines = (sweep.baseline_of(row).get(limit.name) for _, row in remaining.iterrows())
        is_met = [limit.met(value, baseline) is True for value, baseline in zip(values, baselines, strict=True)]
        accepted = remaining[is_met]
        if accepted.empty:
            is_min = limit.sign.startswith(">")
            nearest = number(float(values.max() if is_min else values.min()))
            raise NothingQualifies(
                f"no {noun} has {limit.name} {limit.format_bound()}; the {'highest' if is_min else 'lowest'} value of "
                f"{counted(len(remaining), noun)}{_limits_text(limits[:index])} is {nearest}"
            )
        remaining = accepted
    return remaining
