"""The models on the frontier, as the report page lists them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.frontier.choice import Choice
from analysis.frontier.criterion import Criterion
from analysis.frontier.frontier import Frontier, Model
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable
from analysis.words import cell
from search_spaces.constraint import all_met

NEAR_GUESS = 0.75
"""A model keeps nothing if its retain loss is at least this fraction of the loss of a random guess."""


@dataclass(frozen=True, slots=True)
class Member:
    """A model on the frontier.

    Attributes:
        contribution: the hypervolume that would be lost without the model, in [0, 1].
        met: whether the model meets all requirements; None if unknown.
        roles: labels such as "nearest to ideal".
        measured: whether a metric other than the losses was measured on the model.
        collapsed: whether a minimized loss is near or above the loss of a random guess.
    """

    model: Model
    values: tuple[float, ...]
    contribution: float
    met: bool | None
    roles: tuple[str, ...]
    measured: bool
    collapsed: bool


def frontier_members(
    front: Frontier, roles: Mapping[Model, Sequence[str]], sweep: SweepFile, table: TrialTable, criterion: Criterion
) -> tuple[Member, ...]:
    guess = sweep.random_guess_loss
    minimized = [item.column for item in sweep.objectives if item.direction == "min"]
    losses = [name for name in minimized if sweep.columns.is_loss(name)]
    late_metrics = [name for name in sweep.columns.metrics if not sweep.columns[name].each_evaluation]
    judged = criterion.judge(front.members)
    met = judged.met[:, judged.required]
    return tuple(
        Member(
            model=Model.of(row, table),
            values=tuple(front.values[index].tolist()),
            contribution=float(front.contributions[index]),
            met=all_met(None if np.isnan(value) else bool(value) for value in met[index]),
            roles=tuple(roles.get(Model.of(row, table), ())),
            measured=any(cell(row.get(name)) is not None for name in late_metrics),
            collapsed=guess is not None and any(float(row[name]) >= NEAR_GUESS * guess for name in losses),
        )
        for index, (_, row) in enumerate(front.members.iterrows())
    )


def member_roles(front: Frontier, choice: Choice, row: pd.Series, table: TrialTable) -> dict[Model, list[str]]:
    roles: dict[Model, list[str]] = {}
    if choice.recommended:
        roles[Model.of(row, table)] = ["recommended"]
    if len(front.members):
        positions = {"nearest to ideal": front.distances.argmin(), "largest contribution": front.contributions.argmax()}
        for role, index in positions.items():
            roles.setdefault(Model.of(front.members.iloc[int(index)], table), []).append(role)
    return roles
