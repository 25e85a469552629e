"""Test whether a model belongs to a pool of models: full conformal p-values over several metrics together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.tables.trade_off import Floats

_RESOLUTION = 1e-9
"""Differences below this share of a metric's largest absolute value are rounding errors."""


_NEAR = 0.9
"""Metrics with at least this share of the largest squared deviation count as those that deviate most."""


@dataclass(frozen=True, slots=True)
class PoolTest:
    """The result of comparing one model with a pool.

    Attributes:
        p: the p-value of the hypothesis that the model is one more model of the pool.
        metric: the index of the metric that gives the model away: of the metrics in which it deviates most, the one
            with the largest difference from the pool's mean.
    """

    p: float
    metric: int


def smallest_p(size: int) -> float:
    """Return the smallest possible p-value with a pool of ``size`` models: 1 / (size + 1)."""
    return 1.0 / (size + 1)


def pool_test(pool: Floats, model: Floats) -> PoolTest:
    """Test the hypothesis that a model and the models of a pool are exchangeable.

    The model joins the pool. Each of the n + 1 models gets a score: the sum over metrics of its squared deviation
    ((value - mean) / sd)^2, with mean and sd of all n + 1 models. The p-value is the share of the n + 1 models whose
    score is at least the model's score. If the hypothesis holds, all ranks are equally probable, so P(p <= a) <= a for
    each a, whatever the distribution of the metrics and however they depend on each other (Vovk, Gammerman and Shafer,
    Algorithmic Learning in a Random World, 2005, section 2.2). Deviations to both sides count: a model that fails more
    often than models that never saw the data deviates, too.

    The sum needs no covariance matrix, which could not be estimated from about twenty models. A squared deviation is at
    most n^2 / (n + 1), so no single metric decides. With the largest deviation as the score, a pool's model that is the
    only one with a loop in an answer would rank as high as a model that knows everything.

    Args:
        pool: the metrics of the pool's models, shape (n, metrics), with n >= 2.
        model: the metrics of the model, shape (metrics,).
    """
    joined = np.vstack([pool, model])
    squares = squared_deviations(joined)
    scores = squares.sum(axis=1)
    differences = np.abs(model - pool.mean(axis=0))
    most = squares[-1] >= _NEAR * squares[-1].max()
    return PoolTest(
        p=float(np.mean(scores >= scores[-1] * (1.0 - _RESOLUTION))),
        metric=int(np.argmax(np.where(most, differences, -1.0))),
    )


def squared_deviations(values: Floats) -> Floats:
    """Return ((value - mean) / sd)^2 with mean and sd (ddof 0) of the value's column; 0 in a column of equal values.

    Args:
        values: shape (models, metrics).
    """
    centred = values - values.mean(axis=0)
    sd = centred.std(axis=0)
    varies = sd > _RESOLUTION * np.abs(values).max(axis=0)
    return np.asarray(np.where(varies, centred / np.where(varies, sd, 1.0), 0.0) ** 2, dtype=np.float64)
