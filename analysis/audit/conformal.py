"""Test whether a model belongs to a pool of models: full conformal p-values over several metrics together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.tables.trade_off import Floats

_RESOLUTION = 1e-9
"""Differences below this share of a metric's largest absolute value are rounding errors."""


@dataclass(frozen=True, slots=True)
class PoolTest:
    """The result of comparing one model with a pool.

    Attributes:
        p: the p-value of the hypothesis that the model is one more model of the pool.
        metric: the index of the metric in which the model deviates most from the pool.
    """

    p: float
    metric: int


def smallest_p(size: int) -> float:
    """Return the smallest possible p-value with a pool of ``size`` models: 1 / (size + 1)."""
    return 1.0 / (size + 1)


def pool_test(pool: Floats, model: Floats) -> PoolTest:
    """Test the hypothesis that a model and the models of a pool are exchangeable.

    The model joins the pool. Each of the n + 1 models gets a score: its largest deviation over the metrics, where the
    deviation in a metric is |value - mean| / sd, with mean and sd of the *other* n models. The p-value is the share of
    the n + 1 models whose score is at least the model's score. If the hypothesis holds, all ranks are equally probable,
    so P(p <= a) <= a for each a, whatever the distribution of the metrics and however they depend on each other (Vovk,
    Gammerman and Shafer, Algorithmic Learning in a Random World, 2005, section 2.2). A deviation to either side
    counts: a model that fails more often than models that never saw the data deviates, too.

    The maximum needs no covariance matrix, which could not be estimated from about twenty models, and it names the
    metric that gives a model away.

    Args:
        pool: the metrics of the pool's models, shape (n, metrics), with n >= 2.
        model: the metrics of the model, shape (metrics,).
    """
    joined = np.vstack([pool, model])
    deviations = deviations_from_others(joined)
    scores = deviations.max(axis=1)
    return PoolTest(p=float(np.mean(scores >= scores[-1])), metric=int(np.argmax(deviations[-1])))


def deviations_from_others(values: Floats) -> Floats:
    """Return |value - mean| / sd of each value, with mean and sd (ddof 1) of the other values in its column.

    Equal values deviate by 0. A value that differs from equal other values deviates by infinity.

    Args:
        values: shape (models, metrics), with at least three models.
    """
    count = len(values) - 1
    centred = values - values.mean(axis=0)
    rounding = _RESOLUTION * np.abs(values).max(axis=0)
    means = (centred.sum(axis=0) - centred) / count
    squares = (centred**2).sum(axis=0) - centred**2 - count * means**2
    deviation = np.abs(centred - means)
    sd = np.sqrt(np.maximum(squares, 0.0) / (count - 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(sd > rounding, deviation / sd, np.inf)
    return np.asarray(np.where(deviation > rounding, ratios, 0.0), dtype=np.float64)
