"""Test the mean of paired differences over seeds, and correct p-values for multiple comparisons.

The mean is tested by betting, which is valid for any distribution in [-1, 1] (Waudby-Smith & Ramdas 2024). A bettor
with the capital 1 bets that the mean is above m. On each difference d, the bettor stakes the fraction ``f`` of the
largest possible stake, so d multiplies the capital by ``1 + f (d - m) / (1 + m)``. If the mean is at most m, the
capital reaches 1/p with probability at most p. The capital is divided among several constant values of f, so the order
of the seeds does not matter.

The test takes into account that a rare collapse may not have been observed. If all n differences are +d, no valid test
can have a p-value below (1 + d)^-n. The bet with f = 1 attains this limit.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, stdtrit

ALPHA = 0.05
"""The largest allowed probability that a report contains any wrong decision."""
CONFIDENCE = 0.95
"""The confidence level of the intervals of a share and of a mean."""
TIE = 1e-12
"""Hypervolumes count as equal if their difference is smaller than this value, which allows for rounding errors."""
SHARES = np.array([1.0, 0.5, 0.2])
CAPITAL = np.array([0.7, 0.2, 0.1])
"""The initial capital for each f in ``SHARES``, tuned for small differences (benchmarks/verdict_coverage.py)."""
_MOST_SEEDS = 1_000_000
_BISECTIONS = 60
_MOST_EXACT, _DRAWS = 22, 100_000


@dataclass(frozen=True, slots=True)
class Share:
    """A share ``count / n``, with the exact 95% interval of the underlying probability (Clopper & Pearson 1934)."""

    count: int
    n: int
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.count} of {self.n} ({self.low:.0%} to {self.high:.0%})"


def p_above(differences: npt.ArrayLike, bar: float = 0.0) -> float:
    """Return the p-value of the null hypothesis "mean <= ``bar``" for ``differences`` in [-1, 1], shape (n,)."""
    return float(min(1.0, math.exp(-_log_wealth(np.asarray(differences), bar))))


def p_below(differences: npt.ArrayLike, bar: float = 0.0) -> float:
    """Return the p-value of the null hypothesis "mean >= ``bar``" for ``differences`` in [-1, 1], shape (n,)."""
    return p_above(-np.asarray(differences), -bar)


def lower_bound(differences: npt.ArrayLike, level: float) -> float:
    """Return a lower confidence bound, which exceeds the true mean with probability at most ``level``."""
    values = np.asarray(differences)
    low, high = -1.0, 1.0
    for _ in range(_BISECTIONS):  # the capital decreases as the bar rises
        middle = (low + high) / 2
        low, high = (middle, high) if _log_wealth(values, middle) >= -math.log(level) else (low, middle)
    return low


def upper_bound(differences: npt.ArrayLike, level: float) -> float:
    """Return an upper confidence bound, which is below the true mean with probability at most ``level``."""
    return -lower_bound(-np.asarray(differences), level)


def seeds_to_tell(difference: float, level: float) -> int | None:
    """Return the smallest number of seeds for a one-sided p-value below ``level``, if all seeds have this difference.

    The result is None if the difference is 0, or if more than 10^6 seeds are needed.
    """
    if not 0 < abs(difference) <= 1:
        return None

    def log_wealth(n: int) -> float:
        return float(np.logaddexp.reduce(np.log(CAPITAL) + n * np.log1p(SHARES * abs(difference))))

    count = bisect_right(range(_MOST_SEEDS), -math.log(level), key=log_wealth)
    return count if count < _MOST_SEEDS else None


def exact_share(count: int, n: int) -> Share:
    tail = (1 - CONFIDENCE) / 2
    low = float(betaincinv(count, n - count + 1, tail)) if count else 0.0
    high = float(betaincinv(count + 1, n - count, 1 - tail)) if count < n else 1.0
    return Share(count, n, low, high)


def _log_wealth(values: npt.NDArray[np.float64], bar: float) -> float:
    """Return the logarithm of the final capital for an initial capital of 1."""
    if bar <= -1:
        return math.inf if (values > -1).any() else 0.0
    factors = 1 + SHARES[:, None] * ((values - bar) / (1 + bar))[None, :]
    with np.errstate(divide="ignore"):
        return float(np.logaddexp.reduce(np.log(CAPITAL) + np.log(np.maximum(factors, 0.0)).sum(axis=1)))


@dataclass(frozen=True, slots=True)
class PairedResult:
    """The statistics of n differences in [-1, 1], one for each seed. No p-value is corrected for multiple comparisons.

    Attributes:
        p_above: the p-value of the null hypothesis "mean <= 0"; valid for any distribution.
        p_below: the p-value of the null hypothesis "mean >= 0"; valid for any distribution.
        ahead: the share of seeds with a difference above 0.
        t_interval: the paired-t 95% interval of the mean, valid for normal differences; None if n < 2.
        sign_flip_p: the p-value of the sign-flip test, valid for symmetric differences; None if no test was made.
        tied: the number of seeds with a difference of 0.
    """

    n: int
    mean: float
    p_above: float
    p_below: float
    ahead: Share
    t_interval: tuple[float, float] | None
    sign_flip_p: float | None
    tied: int = 0


def paired(differences: npt.ArrayLike) -> PairedResult:
    """Return the statistics of per-seed differences, shape (n,), of at least one seed."""
    # The mean of several hypervolumes may exceed 1 by a rounding error.
    values = np.clip(differences, -1.0, 1.0)
    values = np.where(np.abs(values) < TIE, 0.0, values)
    n = len(values)
    return PairedResult(
        n,
        mean=float(values.mean()),
        p_above=p_above(values),
        p_below=p_below(values),
        ahead=exact_share(int(np.count_nonzero(values > 0)), n),
        t_interval=t_interval(values) if n > 1 else None,
        sign_flip_p=sign_flip_p(values),
        tied=int(np.count_nonzero(values == 0)),
    )


def t_interval(differences: npt.ArrayLike) -> tuple[float, float]:
    """Return the 95% interval ``mean ± t(n-1) s / sqrt(n)`` for at least two differences."""
    values = np.asarray(differences)
    half = stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2) * values.std(ddof=1) / math.sqrt(len(values))
    return float(values.mean() - half), float(values.mean() + half)


def sign_flip_p(differences: npt.ArrayLike) -> float:
    """Return the two-sided p-value of the sign-flip test (Fisher 1935).

    The p-value is the share of sign assignments whose sum is at least as far from 0 as the observed sum. For n <= 22,
    all 2^n assignments are tried. For larger n, the observed assignment and 100,000 random assignments are tried.
    """
    values = np.asarray(differences)
    observed = abs(values.sum())
    # Rounding depends on the order of summation.
    bar = observed - 1e-12 * max(float(np.abs(values).sum()), 1e-300)
    if len(values) > _MOST_EXACT:
        signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(_DRAWS, len(values)))
        return float((1 + np.count_nonzero(np.abs(signs @ values) >= bar)) / (_DRAWS + 1))
    # The first sign is fixed, because flipping all signs gives the same distance from 0.
    sums = values[:1].copy()
    for value in values[1:]:
        sums = np.concatenate([sums + value, sums - value])
    return float(np.count_nonzero(np.abs(sums) >= bar) / len(sums))


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjust p-values for multiple comparisons (Holm 1979). The result has the order of ``p_values``.

    The i-th smallest of m p-values becomes ``max over j <= i of min(1, (m - j + 1) p_(j))``, where p_(j) is the j-th
    smallest p-value.
    """
    order = np.argsort(p_values, kind="stable")
    ranked = np.asarray(p_values)[order] * np.arange(len(p_values), 0, -1)
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.maximum.accumulate(np.minimum(ranked, 1.0))
    return tuple(adjusted.tolist())
