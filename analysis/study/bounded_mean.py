"""What n seeds say of the mean of bounded differences, whatever their distribution: a test by betting.

A bettor who puts the share ``f`` of the most that can be staked on "the mean is above m" multiplies the stake by
``1 + f (d - m) / (1 + m)`` on a difference d in [-1, 1]; if the mean is at most m, nobody's expected wealth grows, and
wealth of 1/p is reached with probability p at most (Waudby-Smith & Ramdas 2024). Here the capital is spread over
fixed shares, so that the order of the seeds says nothing and n may be any number. A rare ruin that has not been seen
yet is allowed for: of n differences +d no valid test can have a smaller p than (1 + d)^-n, which the largest share has.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv

from analysis.errors import AnalysisError

SHARES = np.array([1.0, 0.5, 0.2])
CAPITAL = np.array([0.7, 0.2, 0.1])
"""How much of the capital is bet at each share: chosen in benchmarks/verdict_coverage.py, for small differences."""
_MOST_SEEDS = 1_000_000
_BISECTIONS = 60


@dataclass(frozen=True, slots=True)
class Share:
    """``count`` of ``n``, with the exact interval of the probability behind it (Clopper & Pearson 1934)."""

    count: int
    n: int
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.count} of {self.n} ({self.low:.0%} to {self.high:.0%})"


def p_above(differences: npt.ArrayLike, bar: float = 0.0) -> float:
    """One-sided p-value against "the mean is at most ``bar``", of differences in [-1, 1], shape (n,).

    Raises:
        AnalysisError: a difference is NaN or outside [-1, 1].
    """
    wealth = _log_wealth(checked(differences), bar)
    return float(min(1.0, math.exp(-wealth)))


def p_below(differences: npt.ArrayLike, bar: float = 0.0) -> float:
    """One-sided p-value against "the mean is at least ``bar``"."""
    return p_above(-checked(differences), -bar)


def lower_bound(differences: npt.ArrayLike, level: float) -> float:
    """The mean is below this with probability ``level`` at most; -1 where nothing is excluded."""
    values = checked(differences)
    low, high = -1.0, 1.0
    for _ in range(_BISECTIONS):  # the wealth falls as the bar rises
        middle = (low + high) / 2
        low, high = (middle, high) if _log_wealth(values, middle) >= -math.log(level) else (low, middle)
    return low


def upper_bound(differences: npt.ArrayLike, level: float) -> float:
    """The mean is above this with probability ``level`` at most."""
    return -lower_bound(-checked(differences), level)


def seeds_to_tell(difference: float, level: float) -> int | None:
    """The fewest seeds, all differing by so much, whose one-sided p-value is below ``level``; None above a million."""
    if not 0 < abs(difference) <= 1:
        return None
    low, high = 0, 1
    while _log_wealth_of_equals(abs(difference), high) <= -math.log(level):
        low, high = high, 2 * high
        if low > _MOST_SEEDS:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        enough = _log_wealth_of_equals(abs(difference), middle) > -math.log(level)
        low, high = (low, middle) if enough else (middle, high)
    return high


def exact_share(count: int, n: int, confidence: float = 0.95) -> Share:
    """The exact two-sided interval of a probability."""
    tail = (1 - confidence) / 2
    low = float(betaincinv(count, n - count + 1, tail)) if count else 0.0
    high = float(betaincinv(count + 1, n - count, 1 - tail)) if count < n else 1.0
    return Share(count, n, low, high)


def checked(differences: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Differences as floats, shape (n,).

    Raises:
        AnalysisError: one is NaN, or further from 0 than two shares of a box can be.
    """
    values = finite(differences)
    if np.abs(values).max(initial=0.0) > 1 + 1e-9:
        raise AnalysisError(f"differences must lie in [-1, 1], got {values[np.abs(values).argmax()]:g}")
    return np.clip(values, -1.0, 1.0)


def finite(differences: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Differences of any size as floats, shape (n,).

    Raises:
        AnalysisError: one is NaN or infinite.
    """
    values = np.asarray(differences, dtype=np.float64)
    if values.ndim != 1:
        raise AnalysisError(f"differences must be a list of numbers, got the shape {values.shape}")
    if not np.isfinite(values).all():
        raise AnalysisError("a missing or infinite difference cannot be tested: leave its seed out first")
    return values


def _log_wealth(values: npt.NDArray[np.float64], bar: float) -> float:
    """The logarithm of what a capital of 1 has become; -inf where every bet is lost."""
    if bar <= -1:
        return math.inf if (values > -1).any() else 0.0
    factors = 1 + SHARES[:, None] * ((values - bar) / (1 + bar))[None, :]
    with np.errstate(divide="ignore"):
        return float(np.logaddexp.reduce(np.log(CAPITAL) + np.log(np.maximum(factors, 0.0)).sum(axis=1)))


def _log_wealth_of_equals(difference: float, n: int) -> float:
    return float(np.logaddexp.reduce(np.log(CAPITAL) + n * np.log1p(SHARES * difference)))
