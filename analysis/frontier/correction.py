"""Correct the scores of the selected model for the fact that it was selected by these scores.

The best of many models is partly the best by luck: its scores on the items that it was selected by are better than its
scores on other items. :func:`correct` estimates the scores on other items with the bootstrap bias-corrected
cross-validation of Tsamardinos, Greasidou and Borboudakis, Bootstrapping the out-of-sample predictions for efficient
and accurate cross-validation, Machine Learning 107, 2018 (arXiv:1708.07180):

1. Draw as many items as there are, with replacement.
2. Select a model by its scores on the drawn items.
3. Compute the scores of this model on the items that were not drawn.

The corrected score is the mean over many draws, and the interval holds the middle 95%. If all models tell none of 20
facts, all draws agree, although 20 facts cannot exclude a share of 10%. So the interval of a score in [0, 1] also
covers Wilson's score interval for a share of the items. Items are drawn from each evaluation set separately. Questions
in other words are drawn together with the questions.

The same draws measure the noise of a comparison (:attr:`Resampling.noise`): two models are within noise if their
difference is at most 1.96 times its standard deviation over the draws. Luck of the seed is no part of this noise.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from analysis.tables.columns import Columns
from analysis.tables.item_logs import Parts, item_scores
from analysis.tables.trade_off import Floats
from analysis.tables.trial_table import numbers

DRAWS = 200
LEVEL = 0.95
Z = 1.96
"""The number of standard deviations by which two scores differ if they differ beyond noise."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A corrected score, and its 95% interval. ``value`` is the plain score of the selected model on all items."""

    value: float
    corrected: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, eq=False)
class ItemPart:
    """The items' values of one part of a metric, for all models.

    Attributes:
        totals, counts: shape (models, items). Models without values have the count 0 for all items.
        items: the key of the evaluation set. Parts with the same key have the same items.
    """

    totals: Floats
    counts: Floats
    items: Hashable

    @property
    def known_items(self) -> int:
        """The number of items with a value."""
        return int((self.counts > 0).any(axis=0).sum())

    def means(self, weights: Floats) -> Floats:
        """Return the means for weights of the items, shape (draws, items), as an array of shape (draws, models)."""
        totals, counts = weights @ self.totals.T, weights @ self.counts.T
        means: Floats = np.full(counts.shape, np.nan)
        np.divide(totals, counts, out=means, where=counts > 0)
        return means


@dataclass(frozen=True, eq=False)
class ItemScores:
    """The values of the items by metric. The value of a metric is the harmonic mean of its parts' means.

    Attributes:
        shares: the metrics in [0, 1].
    """

    parts: Mapping[str, tuple[ItemPart, ...]]
    shares: frozenset[str]

    @classmethod
    def of(cls, logs: Sequence[Mapping[str, Parts]], columns: Columns) -> ItemScores:
        """Collect the values of all models.

        Parts with equally many items of the same data set, such as the forget set, count as values of the same items.

        Args:
            logs: the entry ``scores`` of each model's per-item log; empty for a model without a log.
        """
        names = dict.fromkeys(name for log in logs for name in log)
        parts = {name: _parts([log.get(name, ()) for log in logs], columns[name].of) for name in names}
        return cls(parts, frozenset(name for name in names if columns[name].bounds == (0.0, 1.0)))

    @property
    def digest(self) -> int:
        """A number that depends on the values only. It is the seed of the draws."""
        content = hashlib.blake2b(digest_size=8)
        for name in sorted(self.parts):
            content.update(name.encode())
            for part in self.parts[name]:
                content.update(part.totals.tobytes())
        return int.from_bytes(content.digest(), "big")

    def means(self, weights: Mapping[Hashable, Floats]) -> dict[str, Floats]:
        """Return each metric for weights of the items, shape (draws, models); NaN for models without values."""
        return {
            name: _harmonic_mean([part.means(weights[part.items]) for part in parts])
            for name, parts in self.parts.items()
        }


@dataclass(frozen=True, eq=False)
class Resampling:
    """Random draws of the items, and the scores of all models on them.

    Attributes:
        scores: the values of the items.
        drawn: each metric on the drawn items, shape (draws, models); NaN for models without values.
        left_out: each metric on the items that were not drawn, shape (draws, models).
    """

    scores: ItemScores
    drawn: Mapping[str, Floats]
    left_out: Mapping[str, Floats]

    @classmethod
    def of(cls, scores: ItemScores, *, draws: int = DRAWS) -> Resampling:
        """Draw the items. Equal scores give equal draws."""
        rng = np.random.default_rng(scores.digest)
        sizes = {part.items: part.totals.shape[1] for parts in scores.parts.values() for part in parts}
        weights: dict[Hashable, Floats] = {
            items: rng.multinomial(size, np.full(size, 1.0 / size), size=draws).astype(np.float64)
            for items, size in sizes.items()
        }
        unused = {items: (drawn == 0).astype(np.float64) for items, drawn in weights.items()}
        return cls(scores, scores.means(weights), scores.means(unused))

    @cached_property
    def noise(self) -> Mapping[str, Floats]:
        """The noise of the difference between two models, shape (models, models), by metric.

        Differences up to this value are within noise. NaN if a model has no values of the items.
        """
        return {name: Z * _spreads(values) for name, values in self.drawn.items()}

    def tables(self, rows: pd.DataFrame) -> Iterable[pd.DataFrame]:
        """Yield, for each draw, the table of the models with the scores on the drawn items."""
        columns = {name: values for name, values in self.drawn.items() if name in rows}
        known = {name: np.isfinite(values).all(axis=0) for name, values in columns.items()}
        plain = {name: numbers(rows, name).to_numpy(dtype=np.float64) for name in columns}
        for draw in range(len(next(iter(columns.values()), ()))):
            yield rows.assign(
                **{name: np.where(known[name], values[draw], plain[name]) for name, values in columns.items()}
            )


def resampling_of(rows: pd.DataFrame, columns: Columns) -> Resampling:
    """Draw the items of the models in rows of ``TrialTable.models``, from their per-item logs."""
    return Resampling.of(ItemScores.of(item_scores(rows), columns))


def correct(
    rows: pd.DataFrame,
    resampling: Resampling,
    select: Callable[[pd.DataFrame], int | None],
    position: int,
) -> dict[str, Interval]:
    """Return the corrected scores, by metric, of the model that ``select`` selects from ``rows``, one row per model.

    Metrics without values of the items are left out.

    Args:
        rows: the scores of the models.
        select: returns the position of the selected model; None if no model is selected.
        position: the position of the selected model in ``rows``.
    """
    choices = [select(table) for table in resampling.tables(rows)]
    draws = np.array([draw for draw, choice in enumerate(choices) if choice is not None], dtype=np.intp)
    models = np.array([choice for choice in choices if choice is not None], dtype=np.intp)
    intervals: dict[str, Interval] = {}
    for name, left_out in resampling.left_out.items():
        values = left_out[draws, models]
        values = values[np.isfinite(values)]
        if name in rows and len(values):
            plain, corrected = float(numbers(rows, name).iloc[position]), float(values.mean())
            bounds = np.quantile(values, [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0])
            if name in resampling.scores.shares:
                items = min(part.known_items for part in resampling.scores.parts[name])
                bounds = np.append(bounds, wilson_interval(corrected, items))
            intervals[name] = Interval(plain, corrected, float(bounds.min()), float(bounds.max()))
    return intervals


def wilson_interval(share: float, items: int) -> tuple[float, float]:
    """Return the 95% score interval of a share of ``items`` items (Wilson, 1927).

    For a mean of values in [0, 1], the interval is conservative, because their variance is at most that of a share.
    """
    z2 = Z * Z / items
    middle = (share + z2 / 2.0) / (1.0 + z2)
    half = math.sqrt(share * (1.0 - share) * z2 + z2 * z2 / 4.0) / (1.0 + z2)
    return max(0.0, middle - half), min(1.0, middle + half)


def _parts(logs: Sequence[Parts], of: str | None) -> tuple[ItemPart, ...]:
    """Return the parts of one metric. Models whose number of parts or items differs from the first are left out."""
    shape = next(tuple(len(part["totals"]) for part in log) for log in logs if log)
    is_known = [tuple(len(part["totals"]) for part in log) == shape for log in logs]
    parts = []
    for index, size in enumerate(shape):
        totals, counts = np.zeros((len(logs), size)), np.zeros((len(logs), size))
        for model, log in enumerate(logs):
            if is_known[model]:
                totals[model] = np.array(log[index]["totals"], dtype=np.float64)
                counts[model] = log[index].get("counts", 1.0)
        parts.append(ItemPart(totals, counts, (of, size)))
    return tuple(parts)


def _harmonic_mean(means: Sequence[Floats]) -> Floats:
    if len(means) == 1:
        return means[0]
    with np.errstate(divide="ignore"):
        mean: Floats = 1.0 / np.mean([1.0 / mean for mean in means], axis=0)
    return mean


def _spreads(values: Floats) -> Floats:
    """Return the standard deviation over draws, of the differences between models. ``values`` is (draws, models)."""
    deviations = values - values.mean(axis=0)
    products = deviations.T @ deviations / max(1, len(values) - 1)
    variances = np.diag(products)
    spreads: Floats = np.sqrt(np.maximum(variances[:, None] + variances[None, :] - 2.0 * products, 0.0))
    return spreads
