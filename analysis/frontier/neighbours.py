"""Find the two neighbours of a model on the frontier, and compare their scores with the model's scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.frontier.frontier import Model, frontier
from analysis.frontier.pick import Best
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trade_off import oriented_of, values_of
from analysis.tables.trial_table import TrialTable, finite_cell
from search_spaces.constraint import Constraint, all_met


@dataclass(frozen=True, slots=True)
class Change:
    """One score of a neighbour (``value``), and the same score of the selected model (``instead_of``)."""

    value: float
    instead_of: float


@dataclass(frozen=True, slots=True)
class Neighbour:
    """The model on the frontier that is next to the selected model on one side.

    Attributes:
        side: whether the neighbour is better or worse in the first objective, such as ``better forget_loss``.
        better, worse: the columns in which the neighbour is better, or worse, than the selected model.
        within_limits: whether the neighbour is within the limits; None if a value is missing or there are no limits.
    """

    side: str
    model: Model
    better: Mapping[str, Change]
    worse: Mapping[str, Change]
    within_limits: bool | None


def neighbours(
    row: pd.Series, table: TrialTable, sweep: SweepFile, *, limits: Sequence[Constraint] = (), best: Best | None = None
) -> tuple[Neighbour, ...]:
    """Return the models before and after the model ``row`` on the frontier of ``table``.

    At an end of the frontier, there is only one such model. Models with the same objectives as ``row`` are skipped. The
    model ``row`` need not be on the frontier. The compared scores are the objectives, the primary metrics and the
    column ``best``.
    """
    front = frontier(table.models, sweep.objectives)
    if not len(front.members):
        return ()
    values = np.vstack([values_of(row.to_frame().T.infer_objects(), front.objectives), front.values])
    if not np.isfinite(values[0]).all():
        return ()
    here, *keys = map(tuple, oriented_of(values, front.objectives).tolist())
    directions = {item.column: item.direction for item in sweep.objectives}
    for name in sweep.columns.primaries(table.measured(sweep.columns.metrics)):
        directions.setdefault(name, sweep.columns[name].direction or "max")
    if best is not None:
        directions.setdefault(best.column, best.direction)

    def neighbour(side: str, other: pd.Series) -> Neighbour:
        better: dict[str, Change] = {}
        worse: dict[str, Change] = {}
        for name, direction in directions.items():
            there, own = finite_cell(other, name), finite_cell(row, name)
            if there is not None and own is not None and there != own:
                (better if (there > own) == (direction == "max") else worse)[name] = Change(there, own)
        before = sweep.baseline_of(other)
        return Neighbour(
            side=f"{side} {front.objectives[0].name}",
            model=Model.of(other, table),
            better=better,
            worse=worse,
            within_limits=all_met(item.met(finite_cell(other, item.name), before.get(item.name)) for item in limits),
        )

    before, after = ([i for i, key in enumerate(keys) if key < here], [i for i, key in enumerate(keys) if key > here])
    places = [("better", i) for i in before[-1:]] + [("worse", i) for i in after[:1]]
    return tuple(neighbour(side, front.members.iloc[i]) for side, i in places)
