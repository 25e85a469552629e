"""Choose the model of a sweep to recommend.

Of the good models (:mod:`analysis.frontier.criterion`), the best one is chosen (:mod:`analysis.frontier.ranking`). If
no model is good, the model closest to the bounds is chosen, but not recommended.

If the criterion bounds attacked scores, and models were attacked, only these models are compared: a model that was not
attacked is not known to meet the bounds, so it cannot replace one that misses them.

If configurations were trained again with fresh seeds (:mod:`analysis.frontier.confirmation`), the first of the best
models of three configurations that meets the criterion in all fresh runs is chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

import numpy as np
import pandas as pd

from analysis.frontier.confirmation import Confirmed, confirmed
from analysis.frontier.correction import Interval, Resampling, correct, resampling_of
from analysis.frontier.criterion import Criterion, Judged, Role, Verdict, criterion_of
from analysis.frontier.frontier import selectable_models
from analysis.frontier.ranking import NO_NOISE, Decision, Noise, Ranking
from analysis.frontier.robust import attacked_rows, under_attack
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable, is_merged, numbers
from search_spaces.common.objective import Objective

RUNNERS_UP = 2
_SEEDS = ("seed", "target_seed", "data_seed", "target_key")
"""The settings in which the trials of a configuration may differ."""


class Outcome(StrEnum):
    """What is known about the models of a sweep.

    ``GOOD``: a model meets the criterion. ``MISSED``: every judged model misses a requirement. ``NOT_KNOWN``: no judged
    model is known to be good, but not all miss a requirement. ``NONE``: there is no model to choose.
    """

    GOOD = "good"
    MISSED = "missed"
    NOT_KNOWN = "not_known"
    NONE = "none"


@dataclass(frozen=True, eq=False)
class Choice:
    """The chosen model of a table with one row per model. Models are given by their positions in the table.

    Attributes:
        index: the chosen model; None if there is no model to choose.
        decision: why the model was preferred.
        eligible: the number of models that could be chosen: the good models. If no model is good, these are the models
            without a known miss or, if every judged model misses a requirement, all judged models.
        runners_up: the models that would be chosen next, in order.
        ties: the other models that cannot be told apart from the chosen model.
        lacking: if the outcome is ``MISSED``, the roles whose requirements no model meets, or no model meets together;
            if it is ``NOT_KNOWN``, the roles for which the chosen model has no result.
        confirmed: the results of the chosen model's fresh runs; None if it has none.
        resampling: the scores of the models on random draws of the items; None if they were not needed.
    """

    outcome: Outcome
    index: int | None
    ranking: Ranking
    decision: Decision | None = None
    eligible: int = 0
    runners_up: tuple[int, ...] = ()
    ties: tuple[int, ...] = ()
    lacking: tuple[Role, ...] = ()
    confirmed: Confirmed | None = None
    resampling: Resampling | None = None

    @property
    def recommended(self) -> bool:
        return self.outcome is Outcome.GOOD

    @property
    def rows(self) -> pd.DataFrame:
        return self.ranking.rows

    @property
    def criterion(self) -> Criterion:
        return self.ranking.criterion

    @property
    def judged(self) -> Judged:
        """The comparison of all models with the requirements."""
        return self.ranking.judged

    @property
    def is_of_attacked(self) -> bool:
        """Whether only attacked models were compared, because the criterion bounds attacked scores."""
        return bool(attacked_rows(self.rows, self.criterion).any())

    @property
    def row(self) -> pd.Series | None:
        """The row of the chosen model."""
        return None if self.index is None else self.rows.iloc[self.index]

    @cached_property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The comparison of the chosen model with the requirements; () without a chosen model."""
        return () if self.index is None else self.judged.verdicts(self.index)

    @property
    def disliked(self) -> tuple[Verdict, ...]:
        """The preferred requirements that the chosen model misses."""
        return tuple(item for item in self.verdicts if item.requirement.preferred and item.met is False)


def choose_model(
    table: TrialTable, sweep: SweepFile, *, criterion: Criterion | None = None, robust: bool = False
) -> Choice:
    """Choose one of the models of a sweep that can be selected. Rows of external tables are left out.

    Args:
        criterion: the criterion of a good model; by default, that of the sweep.
        robust: whether the model must also meet the criterion after each attack (:mod:`analysis.frontier.robust`). Only
            models with the results of all attacks can then be chosen.
    """
    rows = selectable_models(table.without_external, sweep).trials
    criterion = criterion or criterion_of(sweep, table)
    if robust:
        criterion = under_attack(criterion, table.with_trials(rows).measured(sweep.columns.metrics))
    is_attacked = attacked_rows(rows, criterion)
    if robust or is_attacked.any():
        rows = rows[is_attacked]
    resampling = resampling_of(rows, sweep.columns)
    found = choose(rows, criterion, sweep.objectives, noise=resampling.noise)
    choice = replace(found, resampling=resampling)
    if choice.index is None or table.fresh.empty:
        return choice
    order = to_confirm(choice, table) or [choice.index]
    results = [confirmed(rows.iloc[index], table.fresh, choice.criterion) for index in order]
    held = next((i for i, result in enumerate(results) if result.holds), 0)
    if held:
        others = tuple(index for index in order if index != order[held])
        choice = replace(choice, index=order[held], decision=Decision.CONFIRMED, ties=(), runners_up=others)
    return replace(choice, confirmed=results[held] if results[held].runs else None)


def to_confirm(choice: Choice, table: TrialTable) -> list[int]:
    """Return the models whose configurations are trained again: the best good models of the best configurations.

    The result does not depend on fresh runs. It is empty without a good model. A merged model has no configuration that
    could be trained again.
    """
    good = np.flatnonzero(choice.judged.good & ~is_merged(choice.rows).to_numpy()).tolist()
    return choice.ranking.order(good, 1 + RUNNERS_UP, groups=configurations_of(choice.rows, table))


def models_to_confirm(
    table: TrialTable, sweep: SweepFile, *, model: tuple[str, float | None] | None = None
) -> list[Confirmed]:
    """Return the models whose configurations are trained again, best first, with the results of their fresh runs.

    Args:
        model: the trial id and the epoch of the only model to confirm; None for the best model and its runners-up. The
            epoch None is the trial's last evaluated epoch.
    """
    if model is None:
        choice = choose_model(table, sweep)
        rows = choice.rows.iloc[to_confirm(choice, table)]
    else:
        rows = table.models.trials
        rows = rows[rows["trial_id"] == model[0]].sort_values("epoch")
        rows = rows[numbers(rows, "epoch") == model[1]] if model[1] is not None else rows.iloc[-1:]
    criterion = criterion_of(sweep, table)
    return [confirmed(row, table.fresh, criterion) for _, row in rows.iterrows()]


def configurations_of(rows: pd.DataFrame, table: TrialTable) -> list[int]:
    """Return the number of each model's configuration. The trials of a configuration differ only in their seeds."""
    names = [name for name in table.spec_columns if name not in _SEEDS and name in rows]
    numbers: list[int] = rows.groupby(["sweep", *names], dropna=False, sort=False).ngroup().tolist()
    return numbers


def choose(
    rows: pd.DataFrame,
    criterion: Criterion,
    objectives: Sequence[Objective],
    *,
    noise: Noise = NO_NOISE,
    runners_up: int = RUNNERS_UP,
) -> Choice:
    """Choose one of the models in ``rows``.

    The result depends only on the arguments, so that a choice can be repeated for scores on other items.

    Args:
        rows: the scores of the models, one row per model.
        noise: the noise of each score (:class:`Ranking`).
        runners_up: the maximum number of runners-up.
    """
    ranking = Ranking(rows, criterion, objectives, noise)
    judged = ranking.judged
    outcomes = (
        (Outcome.GOOD, judged.good),
        (Outcome.NOT_KNOWN, judged.known & ~judged.misses(*Role)),
        (Outcome.MISSED, judged.known & (not criterion.faults)),
        (Outcome.NOT_KNOWN, np.isfinite([distance for distance, _ in ranking.distance])),
    )
    found = next(((item, np.flatnonzero(mask).tolist()) for item, mask in outcomes if mask.any()), None)
    if found is None:
        return Choice(Outcome.NONE, None, ranking)
    outcome, positions = found
    ties: tuple[int, ...] = ()
    if outcome is Outcome.MISSED:
        first, *others = ranking.closest(positions)
        decision, lacking = Decision.CLOSEST, _missed_roles(judged)
    else:
        first, decision, ties = ranking.best(positions)
        others = ranking.order([i for i in positions if i != first], runners_up)
        roles = () if outcome is Outcome.GOOD else (Role.FORGET, Role.KEEP)
        lacking = tuple(role for role in roles if not judged.shows(role)[first])
    return Choice(
        outcome,
        first,
        ranking,
        decision=decision,
        eligible=len(positions),
        runners_up=tuple(others[:runners_up]),
        ties=ties,
        lacking=lacking,
    )


def _missed_roles(judged: Judged) -> tuple[Role, ...]:
    """Return the roles whose requirements no judged model meets or, without such a role, no model meets together."""
    meets = {role: judged.known & ~judged.misses(role) for role in Role}
    if missed := tuple(role for role in Role if not meets[role].any()):
        return missed
    both = meets[Role.FORGET] & meets[Role.KEEP]
    if not both.any():
        return (Role.FORGET, Role.KEEP)
    return (Role.OTHER if (both & meets[Role.FLUENCY]).any() else Role.FLUENCY,)


def corrected_scores(choice: Choice, objectives: Sequence[Objective]) -> Mapping[str, Interval]:
    """Return the scores of the chosen model, corrected for having been chosen by them (:func:`correct`).

    The scores of a model that fresh runs decided for are not corrected, because it was not chosen by the items. Its
    intervals are still those of other items.
    """
    index, resampling = choice.index, choice.resampling
    if index is None or resampling is None:
        return {}

    def select(table: pd.DataFrame) -> int | None:
        if choice.decision is Decision.CONFIRMED:
            return index
        return choose(table, choice.criterion, objectives, noise=resampling.noise, runners_up=0).index

    return correct(choice.rows, resampling, select, index)
