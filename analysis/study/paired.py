"""Test paired results of two sides on the same seeds.

Every seed is one unit. Binary results (success, collapse) are tested exactly: McNemar's test for pairs, and intervals
of Clopper and Pearson for shares. Differences of a measure are tested with the paired t test. Its check is the test
that flips the signs of the differences, which only needs symmetric differences. If the t test rejects at 5%, the
p-value is the larger one of both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import binomtest, permutation_test, ttest_1samp
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.power import TTestPower

ALPHA = 0.05
"""The largest allowed probability that a study makes any wrong claim."""
CONFIDENCE = 0.95
"""The confidence level of the intervals of a share and of a mean."""
POWER = 0.8
"""The probability with which a study must show the difference that it calls detectable."""
TIE = 1e-12
"""Two values count as equal if their difference is smaller than this value, which allows for rounding errors."""
_DRAWS = 9_999
_EXACT_SEEDS = 12
"""All signs are tried for up to this number of seeds, and 9,999 random signs for more seeds."""


@dataclass(frozen=True, slots=True)
class Share:
    """A share ``count / n``, with the exact 95% interval of the underlying probability (Clopper & Pearson 1934)."""

    count: int
    n: int
    low: float
    high: float

    @property
    def share(self) -> float:
        return self.count / self.n if self.n else math.nan


def exact_share(count: int, n: int) -> Share:
    if not n:
        return Share(0, 0, 0.0, 1.0)
    interval = binomtest(count, n).proportion_ci(CONFIDENCE, method="exact")
    return Share(count, n, float(interval.low), float(interval.high))


def p_more_often(first: Sequence[bool], second: Sequence[bool]) -> float:
    """Return the one-sided p-value of McNemar's exact test. A small value shows that ``first`` is true more often.

    Args:
        first, second: a binary result of each side on each seed, shape (n,).
    """
    ahead = sum(one and not other for one, other in zip(first, second, strict=True))
    behind = sum(other and not one for one, other in zip(first, second, strict=True))
    if ahead <= behind:
        return 1.0
    # Only the pairs that differ matter. The binomial distribution is symmetric, so one side has half of the p-value.
    return float(mcnemar([[0, ahead], [behind, 0]], exact=True).pvalue) / 2


def p_above(differences: npt.ArrayLike, bar: float = 0.0) -> float:
    """Return the one-sided p-value of the null hypothesis "mean <= ``bar``": the larger one of t test and sign flip.

    Args:
        differences: the difference of the two sides on each seed, shape (n,). With fewer than two seeds, the result
            is 1.
    """
    values = np.asarray(differences, dtype=np.float64) - bar
    values = np.where(np.abs(values) < TIE, 0.0, values)
    if len(values) < 2 or values.mean() <= 0:
        return 1.0
    # Without any spread, the t test has no p-value, and the sign flip alone decides.
    by_t = float(ttest_1samp(values, 0.0, alternative="greater").pvalue) if np.ptp(values) > TIE else 0.0
    return by_t if by_t >= ALPHA else max(by_t, _sign_flip_p(values))


def p_below(differences: npt.ArrayLike, bar: float = 0.0) -> float:
    """Return the one-sided p-value of the null hypothesis "mean >= ``bar``", as :func:`p_above`."""
    return p_above(-np.asarray(differences, dtype=np.float64), -bar)


def _sign_flip_p(values: npt.NDArray[np.float64]) -> float:
    resamples = math.inf if len(values) <= _EXACT_SEEDS else _DRAWS
    result = permutation_test(
        (values,),
        lambda data, axis: np.mean(data, axis=axis),
        permutation_type="samples",
        alternative="greater",
        n_resamples=resamples,
        rng=np.random.default_rng(0),
    )
    return float(result.pvalue)


def mean_interval(differences: npt.ArrayLike) -> tuple[float, float]:
    """Return the 95% interval of the paired t test; (NaN, NaN) for fewer than two seeds."""
    values = np.asarray(differences, dtype=np.float64)
    if len(values) < 2:
        return math.nan, math.nan
    if np.ptp(values) <= TIE:
        return float(values.mean()), float(values.mean())
    interval = ttest_1samp(values, 0.0).confidence_interval(CONFIDENCE)
    return float(interval.low), float(interval.high)


def least_seeds(comparisons: int = 1) -> int:
    """Return the smallest number of seeds that can show a difference in one of several corrected comparisons.

    With fewer seeds, even differences of the same sign on every seed have a sign-flip p-value of at least 2^-n, which
    is too large.
    """
    return math.floor(math.log2(2 * comparisons / ALPHA)) + 1


def detectable(seeds: int, spread: float, comparisons: int = 1) -> float:
    """Return the smallest mean difference that a one-sided paired t test shows with power 0.8; NaN if none.

    The test is made against one rate at a level of 2.5%, divided by the number of comparisons.

    Args:
        seeds: the number of seeds.
        spread: the standard deviation of the differences between seeds.
        comparisons: the number of comparisons that are corrected together.
    """
    if seeds < least_seeds(comparisons) or not math.isfinite(spread):
        return math.nan
    level = ALPHA / 2 / comparisons
    effect = TTestPower().solve_power(nobs=seeds, alpha=level, power=POWER, alternative="larger")
    return float(np.squeeze(effect)) * spread
