"""Test whether a model belongs to a pool of models: full conformal p-values over several metrics together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.tables.trade_off import Floats

_ROUNDING = 1e-9
"""Differences below this share of a metric's largest absolute value are rounding errors."""


@dataclass(frozen=True, slots=True)
class PoolTest:
    """The result of comparing one model with a pool.

    Attributes:
        p: the p-value of the hypothesis that the model is one more model of the pool.
        metric: the index of the metric in which the model deviates most.
    """

    p: float
    metric: int


def smallest_p(size: int) -> float:
    """Return the smallest possible p-value with a pool of ``size`` models: 1 / (size + 1)."""
    return 1.0 / (size + 1)


def pool_test(pool: Floats, model: Floats, *, item_steps: Floats) -> PoolTest:
    """Test the hypothesis that a model and the models of a pool are exchangeable.

    The model joins the pool. Each of the n + 1 models gets a score: the sum over metrics of its squared deviation from
    the n other models (:func:`squared_deviations`). The p-value is the share of the n + 1 models whose score is at
    least the model's score. If the hypothesis holds, all ranks are equally probable, so P(p <= a) <= a for each a,
    whatever the distribution of the metrics and however they depend on each other (Vovk, Gammerman and Shafer,
    Algorithmic Learning in a Random World, 2005, section 2.2). Deviations to both sides count: a model that fails more
    often than models that never saw the data deviates, too.

    The sum needs no covariance matrix, which could not be estimated from about twenty models.

    Args:
        pool: the metrics of the pool's models, shape (n, metrics), with n >= 2.
        model: the metrics of the model, shape (metrics,).
        item_steps: the change of each metric when one question is answered differently, shape (metrics,).
    """
    squares = squared_deviations(np.vstack([pool, model]), item_steps=item_steps)
    scores = squares.sum(axis=1)
    return PoolTest(
        p=float(np.mean(scores >= scores[-1] * (1.0 - _ROUNDING))),
        metric=int(np.argmax(squares[-1])),
    )


def squared_deviations(values: Floats, *, item_steps: Floats) -> Floats:
    """Return ((value - mean) / sd)^2 with mean and sd (ddof 0) of the column's other values.

    The other values decide, because a value that is far from them would enlarge a common standard deviation: with all n
    values, the result could not exceed n - 1, however far the value is. The standard deviation is at least the item
    step. Otherwise, a model that is the only one with a loop in an answer would deviate infinitely.

    Args:
        values: shape (models, metrics).
        item_steps: as in :func:`pool_test`.
    """
    n = len(values)
    centred = values - values.mean(axis=0)
    differences = centred * n / (n - 1)  # from the mean of the others
    variances = ((centred**2).sum(axis=0) - centred**2) / (n - 1) - (centred / (n - 1)) ** 2
    sds = np.sqrt(np.maximum(variances, 0.0))
    rounding = np.maximum(_ROUNDING * np.abs(values).max(axis=0), np.finfo(float).tiny)
    deviations = np.where(np.abs(differences) > rounding, differences, 0.0)
    return np.asarray((deviations / np.maximum(sds, np.maximum(item_steps, rounding))) ** 2, dtype=np.float64)
