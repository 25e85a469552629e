"""Choose the model of a sweep to recommend.

Of the good models (:mod:`analysis.frontier.criterion`), the model that keeps most is chosen:

1. Models that miss a preferred requirement, such as that on loops in the answers to forget questions, are left out
   unless all good models miss it. So are models with more unknown results than others.
2. Models that another model beats are left out: the other model is better in one score, and no score is worse.
3. The models that keep most remain, by the first score of the requirements on keeping. Of these, the models that
   forget most remain. If forgetting is not decided, the model nearest to the ideal corner (cost 0 in all objectives) is
   chosen.
4. The remaining models are *ties*. The tie that changes the target least is chosen, by the column with the mark
   ``tie_breaker`` or, without such a column, by the distance from the ideal corner.

Two scores differ only if their difference exceeds the noise, which is measured on the items
(:mod:`analysis.frontier.correction`). If no model is good, the model closest to the bounds is
chosen, but not recommended.

If configurations were trained again with fresh seeds (:mod:`analysis.frontier.confirmation`), the first of the chosen
model and its two runners-up that meets the criterion in all fresh runs is chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType

import numpy as np
import pandas as pd

from analysis.frontier.confirmation import Confirmed, confirmed
from analysis.frontier.correction import Interval, Resampling, correct, resampling_of
from analysis.frontier.criterion import Criterion, Judged, Role, Verdict, criterion_of, good_models
from analysis.frontier.frontier import selectable_models
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trade_off import Floats, Mask, costs_of, measured, values_of
from analysis.tables.trial_table import TrialTable, numbers
from search_spaces.common.objective import Objective

TOLERANCE = 0.02
"""The noise of a score without values of the items: 2% of its range, or 0.02 nats of a retain loss."""
RUNNERS_UP = 2
_SEEDS = ("seed", "target_seed", "data_seed", "target_key")
"""The settings in which the trials of a configuration may differ."""
Noise = Mapping[str, Floats]
"""The noise of the difference between two models, shape (n, n), by column, in the unit of the column."""
NO_NOISE: Noise = MappingProxyType({})


class Outcome(StrEnum):
    """What is known about the models of a sweep.

    ``GOOD``: a model meets the criterion. ``MISSED``: every judged model misses a requirement. ``NOT_KNOWN``: no judged
    model is known to be good, but not all miss a requirement. ``NONE``: there is no model to choose.
    """

    GOOD = "good"
    MISSED = "missed"
    NOT_KNOWN = "not_known"
    NONE = "none"


class Decision(StrEnum):
    """Why the chosen model was preferred to the other models that could be chosen."""

    ONLY = "only one left"
    KEEPING = "keeps most"
    NEAREST = "nearest to the ideal corner"
    LEAST_CHANGE = "changes the target least"
    CLOSEST = "closest to the bounds"
    CONFIRMED = "meets the criterion in all fresh runs"


@dataclass(frozen=True, eq=False)
class Choice:
    """The chosen model of a table with one row per model. Models are given by their positions in the table.

    Attributes:
        index: the chosen model; None if there is no model to choose.
        decision: why the model was preferred.
        eligible: the number of models that could be chosen: the good models or, without a good model, the models of
            which no miss is known or, without such a model, all judged models.
        runners_up: the models that would be chosen next, in order.
        ties: the other models that cannot be told apart from the chosen model.
        lacking: if the outcome is ``MISSED``, the roles whose requirements no model meets, or no model meets together;
            if it is ``NOT_KNOWN``, the roles for which the chosen model has no result.
        judged: the comparison of all models with the requirements.
        measured: the number of judged models: those with a known result for a requirement.
        confirmed: the results of the chosen model's fresh runs; None if it has none.
        resampling: the scores of the models on random draws of the items; None if they were not needed.
    """

    outcome: Outcome
    index: int | None
    rows: pd.DataFrame
    criterion: Criterion
    judged: Judged
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
    def row(self) -> pd.Series | None:
        """The row of the chosen model."""
        return None if self.index is None else self.rows.iloc[self.index]

    @cached_property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The comparison of the chosen model with the requirements; () without a chosen model."""
        return () if self.row is None else self.criterion.verdicts(self.row)

    @property
    def measured(self) -> int:
        return int(self.judged.known.sum())

    @property
    def disliked(self) -> tuple[Verdict, ...]:
        """The preferred requirements that the chosen model misses."""
        return tuple(item for item in self.verdicts if item.requirement.preferred and item.met is False)


def choose_model(table: TrialTable, sweep: SweepFile) -> Choice:
    """Choose one of the models of a sweep that can be selected. Rows of external tables are left out."""
    rows = selectable_models(table.without_external, sweep).trials
    resampling = resampling_of(rows, sweep.columns)
    noise = resampling.noise
    choice = replace(choose(rows, criterion_of(sweep, table), sweep.objectives, noise=noise), resampling=resampling)
    if choice.index is None or table.fresh.empty:
        return choice
    order = _to_confirm(table, sweep, choice, noise) or [choice.index]
    results = [confirmed(rows.iloc[index], table.fresh, choice.criterion) for index in order]
    held = next((i for i, result in enumerate(results) if result.holds), 0)
    if held:
        others = tuple(index for index in order if index != order[held])
        choice = replace(choice, index=order[held], decision=Decision.CONFIRMED, ties=(), runners_up=others)
    return replace(choice, confirmed=results[held] if results[held].runs else None)


def models_to_confirm(
    table: TrialTable, sweep: SweepFile, *, model: tuple[str, float | None] | None = None
) -> list[Confirmed]:
    """Return the models whose configurations are trained again, best first, with the results of their fresh runs.

    Args:
        model: the trial id and the epoch of the only model to confirm; None for the best model and its runners-up. The
            epoch None is the trial's last evaluated epoch.
    """
    if model is not None:
        rows = table.models.trials
        rows = rows[rows["trial_id"] == model[0]].sort_values("epoch")
        rows = rows[numbers(rows, "epoch") == model[1]] if model[1] is not None else rows.iloc[-1:]
    else:
        rows = rows_to_confirm(table, sweep)
    criterion = criterion_of(sweep, table)
    return [confirmed(row, table.fresh, criterion) for _, row in rows.iterrows()]


def rows_to_confirm(table: TrialTable, sweep: SweepFile) -> pd.DataFrame:
    """Return the rows of the best good model and of its runners-up, best first; without a good model, no rows."""
    rows = selectable_models(table.without_external, sweep).trials
    noise = resampling_of(rows, sweep.columns).noise
    choice = choose(rows, criterion_of(sweep, table), sweep.objectives, noise=noise, runners_up=0)
    return rows.iloc[_to_confirm(table, sweep, choice, noise)]


def _to_confirm(table: TrialTable, sweep: SweepFile, choice: Choice, noise: Noise) -> list[int]:
    """Return the positions of the best good model of each of the best configurations, without regard to fresh runs."""
    rows = choice.rows
    names = [name for name in table.spec_columns if name not in _SEEDS and name in rows]
    configurations = rows.groupby(["sweep", *names], dropna=False, sort=False).ngroup().to_numpy()
    remaining = np.arange(len(rows))
    order: list[int] = []
    while choice.recommended and choice.index is not None:
        order.append(int(remaining[choice.index]))
        remaining = remaining[configurations[remaining] != configurations[order[-1]]]
        if len(order) > RUNNERS_UP or not len(remaining):
            break
        part = {name: values[np.ix_(remaining, remaining)] for name, values in noise.items()}
        choice = choose(rows.iloc[remaining], choice.criterion, sweep.objectives, noise=part, runners_up=0)
    return order


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
        noise: the noise of each score. By default, it is :data:`TOLERANCE`.
        runners_up: the maximum number of runners-up.
    """
    judged = criterion.judge(rows)
    distance = _distance(rows, objectives)
    is_judged = judged.known
    is_missed, is_good = judged.misses(*Role), good_models(judged, criterion)
    is_scored = np.isfinite([key[0] for key in distance]).astype(bool)
    if is_good.any():
        outcome, eligible = Outcome.GOOD, is_good
    elif (is_judged & ~is_missed).any():
        outcome, eligible = Outcome.NOT_KNOWN, is_judged & ~is_missed
    elif is_judged.any() and not criterion.faults:
        return _closest(rows, criterion, judged, distance, is_judged)
    elif is_scored.any():
        outcome, eligible = Outcome.NOT_KNOWN, is_scored
    else:
        return Choice(Outcome.NONE, None, rows, criterion, judged)
    order = _Order(rows, criterion, judged, objectives, distance, noise)
    positions = np.flatnonzero(eligible).tolist()
    first, decision, ties = order.best(positions)
    next_best: list[int] = []
    while len(next_best) < min(runners_up, len(positions) - 1):
        next_best.append(order.best([i for i in positions if i not in (first, *next_best)])[0])
    lacking = () if outcome is Outcome.GOOD else _unknown_roles(judged, first)
    return Choice(
        outcome,
        first,
        rows,
        criterion,
        judged,
        decision=decision,
        eligible=len(positions),
        runners_up=tuple(next_best),
        ties=ties,
        lacking=lacking,
    )


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

    return correct(choice.rows, resampling, select, index).scores


def _unknown_roles(judged: Judged, index: int) -> tuple[Role, ...]:
    return tuple(role for role in (Role.FORGET, Role.KEEP) if not judged.shows(role)[index])


def _closest(
    rows: pd.DataFrame, criterion: Criterion, judged: Judged, distance: Sequence[tuple[float, float]], is_judged: Mask
) -> Choice:
    """Choose the model with the smallest sum of misses, for judged models that all miss a requirement."""
    missed = np.nan_to_num(judged.miss[:, judged.required]).sum(axis=1)
    order = sorted(np.flatnonzero(is_judged).tolist(), key=lambda i: (missed[i], distance[i]))
    meets: dict[Role, Mask] = {role: is_judged & ~judged.misses(role) for role in Role}
    lacking = tuple(role for role in Role if not meets[role].any())
    if not lacking:
        both = meets[Role.FORGET] & meets[Role.KEEP]
        fluent = both & meets[Role.FLUENCY]
        lacking = (Role.FORGET, Role.KEEP) if not both.any() else (Role.FLUENCY if not fluent.any() else Role.OTHER,)
    return Choice(
        Outcome.MISSED,
        order[0],
        rows,
        criterion,
        judged,
        decision=Decision.CLOSEST,
        eligible=len(order),
        runners_up=tuple(order[1 : 1 + RUNNERS_UP]),
        lacking=lacking,
    )


@dataclass(frozen=True, eq=False)
class _Order:
    """Selects the best of any of the models in a table."""

    rows: pd.DataFrame
    criterion: Criterion
    judged: Judged
    objectives: Sequence[Objective]
    distance: Sequence[tuple[float, float]]
    noise: Noise

    def best(self, positions: Sequence[int]) -> tuple[int, Decision, tuple[int, ...]]:
        """Return the best of the models, why it was preferred, and its ties."""
        judged = self.judged
        preferred = np.array([item.preferred for item in judged.requirements], dtype=bool)
        disliked = (judged.met[:, preferred] == 0.0).sum(axis=1)
        unknown = np.isnan(judged.met[:, judged.required]).sum(axis=1)
        fewest = min((disliked[i], unknown[i]) for i in positions)
        remaining = [i for i in positions if (disliked[i], unknown[i]) == fewest]
        beaten = beaten_models(*self._differences(remaining))
        remaining = [i for i, is_beaten in zip(remaining, beaten, strict=True) if not is_beaten]
        if len(remaining) == 1:
            return remaining[0], Decision.ONLY, ()
        if not self.judged.shows(Role.FORGET)[remaining].all():
            # Without a result for forgetting, a model that forgets nothing would be best.
            return min(remaining, key=self.distance.__getitem__), Decision.NEAREST, ()
        ties = self._near_best(Role.FORGET, self._near_best(Role.KEEP, remaining))
        if len(ties) == 1:
            return ties[0], Decision.KEEPING, ()
        first = min(ties, key=self._change)
        return first, Decision.LEAST_CHANGE, tuple(i for i in ties if i != first)

    def _change(self, position: int) -> tuple[float, ...]:
        """A sort key: the change from the target by the tie-breaking column, if any, then the distance."""
        marked = [
            name for name, item in self.criterion.columns.entries.items() if (item.usable or {}).get("tie_breaker")
        ]
        values = [float(numbers(self.rows, name).iloc[position]) for name in marked]
        return (*(value if np.isfinite(value) else np.inf for value in values), *self.distance[position])

    def _near_best(self, role: Role, positions: Sequence[int]) -> list[int]:
        """Return the models that the best one does not beat beyond the noise in the first score about the role.

        Scores that were not measured for all of the models are skipped.
        """
        columns = self.criterion.columns
        for item in self.criterion.requirements:
            score = columns.objective(item.column) if item.role is role else None
            values = numbers(self.rows, item.column).to_numpy(dtype=np.float64)[list(positions)]
            if score is not None and np.isfinite(values).all():
                costs = score.oriented(values)
                best = int(costs.argmin())
                margins = self._noise(item.column, score.high - score.low, positions)[best]
                near = costs <= costs[best] + margins
                return [i for i, is_near in zip(positions, near, strict=True) if is_near]
        return list(positions)

    def _noise(self, name: str, scale: float, positions: Sequence[int]) -> Floats:
        if name in self.noise:
            noise = self.noise[name][np.ix_(positions, positions)]
            return np.where(np.isnan(noise), TOLERANCE * scale, noise)
        return np.full((len(positions), len(positions)), TOLERANCE * scale)

    def _differences(self, positions: Sequence[int]) -> tuple[Floats, Floats]:
        """Return the scores by which models are compared, shape (scores, n), and their noise, shape (scores, n, n).

        Smaller scores are better, and NaN stands for an unmeasured score.
        """
        n = len(positions)
        scores = [(name, scale, values[positions]) for name, scale, values in self._scores]
        compared = [item for item in scores if np.isfinite(item[2]).any()]
        noise = np.array([self._noise(name, scale, positions) for name, scale, _ in compared])
        return np.array([values for *_, values in compared]).reshape(-1, n), noise.reshape(-1, n, n)

    @cached_property
    def _scores(self) -> list[tuple[str, float, Floats]]:
        """The scores by which models are compared: column, unit of the noise, and values, shape (models,).

        Smaller scores are better, and NaN stands for an unmeasured score. Scores without a bound are left out.
        """
        columns = self.criterion.columns
        compared = {item.column: item for item in self.objectives}
        # A loss is left out if the capped loss on the same data set is an objective.
        covered = {columns[name].of for name in compared if columns.is_loss(name)}
        other_losses = [name for name in columns.losses if columns[name].of not in covered]
        metrics = [name for name in columns.metrics if not columns[name].descriptive]
        for name in (*other_losses, *metrics):
            if (score := columns.objective(name)) is not None:
                compared.setdefault(name, score)
        scores = []
        for name, score in compared.items():
            values = numbers(self.rows, name).to_numpy(dtype=np.float64)
            # Differences of a retain loss count in nats, because its bound is far from useful models.
            scale = 1.0 if columns.is_loss(name) and columns[name].of == "retain" else score.high - score.low
            if (is_finite := np.isfinite(values)).any():
                scores.append((name, scale, np.where(is_finite, score.oriented(score.clip(values)), np.nan)))
        return scores


def beaten_models(scores: Floats, noise: Floats) -> Mask:
    """Return a mask, shape (n,), of the models that another model beats.

    Model A beats model B if three conditions hold:

    - Every score measured for B was also measured for A.
    - No score of A is worse than B's score by more than the noise.
    - At least one score of A is better than B's score by more than the noise.

    Args:
        scores: the scores of the models, shape (scores, n). Smaller scores are better, and NaN means not measured.
        noise: the noise of the difference between two models, shape (scores, n, n).
    """
    count, n = scores.shape
    if not count:
        return np.zeros(n, dtype=bool)
    gain = scores[:, None, :] - scores[:, :, None]  # (scores, A, B): how much better A is
    is_known, is_needed = np.isfinite(gain), np.isfinite(scores)[:, None, :]
    gain = np.where(is_known, gain, 0.0)
    beats = (is_known | ~is_needed).all(axis=0) & (gain >= -noise).all(axis=0) & (gain > noise).any(axis=0)
    beaten: Mask = np.asarray(beats.any(axis=0))
    # If models beat each other in a cycle, the model with the smallest sum of scores counts as not beaten.
    if beaten.all():
        beaten[int(np.argmin(np.nansum(scores, axis=0)))] = False
    return beaten


def _distance(rows: pd.DataFrame, objectives: Sequence[Objective]) -> list[tuple[float, float]]:
    """Return a sort key for each row: the distance from the ideal corner, and the sum of the unclipped costs.

    Both numbers are infinite if an objective is missing.
    """
    keys = np.full((len(rows), 2), np.inf)
    if objectives and len(rows):
        values = values_of(rows, objectives)
        is_measured = measured(values)
        keys[is_measured, 0] = np.linalg.norm(costs_of(values[is_measured], objectives), axis=1)
        # The unclipped sum breaks ties between rows outside the bounds.
        keys[is_measured, 1] = sum(
            item.oriented(values[is_measured, k]) / (item.high - item.low) for k, item in enumerate(objectives)
        )
    return [(distance, total) for distance, total in keys.tolist()]
