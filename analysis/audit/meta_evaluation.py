"""Evaluate the metrics: does a metric separate models that know from models that do not, and does an attack change it?

The definitions follow the meta-evaluations of OpenUnlearning (Dorna et al., 2025, arXiv:2506.12618) and of the
unlearning depth score (arXiv:2605.24614).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.tables.trade_off import Floats

DRAWS = 2000
_TAIL = 2.5  # per cent of the bootstrap draws on each side of an interval
_SEED = 0


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its 95% percentile interval from :data:`DRAWS` bootstrap draws of models."""

    value: float
    low: float
    high: float


def faithfulness(knowing: Floats, ignorant: Floats) -> Estimate:
    """Return the AUC: the probability that a model that knows has a larger value than a model that does not.

    Ties count one half (Mann-Whitney). Each draw resamples the models of each pool. Values of a metric that is smaller
    for models that know must be negated.

    Args:
        knowing: the metric of the models that saw the forget set, shape (n,).
        ignorant: the metric of the models that never saw it, shape (m,).
    """
    return _estimate(lambda groups: _auc(groups[0], groups[1]), (knowing, ignorant))


def robustness(before: Floats, after: Floats) -> Estimate:
    """Return the harmonic mean over attacks of the mean over models of 1 - |a - b| / (|a| + |b|).

    A metric is robust if attacks do not change it. Two zeros are equal, so they count as 1.

    Args:
        before: the metric b of each model, shape (models,).
        after: the metric a of each model after each attack, shape (models, attacks).
    """
    return _estimate(lambda groups: _agreement(groups[0]), (np.column_stack([before, after]),))


def _auc(knowing: Floats, ignorant: Floats) -> float:
    differences = knowing[:, None] - ignorant[None, :]
    return float(np.mean((differences > 0) + 0.5 * (differences == 0)))


def _agreement(values: Floats) -> float:
    before, after = values[:, :1], values[:, 1:]
    total = np.abs(after) + np.abs(before)
    with np.errstate(invalid="ignore"):
        shares = np.where(total > 0, 1.0 - np.abs(after - before) / total, 1.0)
    means = shares.mean(axis=0)
    return 0.0 if (means == 0).any() else float(len(means) / np.sum(1.0 / means))


def _estimate(statistic: Callable[[Sequence[Floats]], float], groups: Sequence[Floats]) -> Estimate:
    rng = np.random.default_rng(_SEED)
    draws = [statistic([rng.choice(group, len(group)) for group in groups]) for _ in range(DRAWS)]
    low, high = np.percentile(draws, [_TAIL, 100.0 - _TAIL])
    return Estimate(statistic(groups), float(low), float(high))
