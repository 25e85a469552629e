"""Whether one treatment is better than another on the same seeds: interval, exact test, correction for many tests.

Every function raises an AnalysisError for a difference that is NaN or infinite, and for too few of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import t as student

from analysis.errors import AnalysisError

ALPHA = 0.05
"""The level of every two-sided test."""
LEAST_PAIRS = 6
"""With n pairs the smallest two-sided p-value of a sign-flip test is 2 / 2^n: below 0.05 only from n = 6 on."""
_MOST_EXACT = 22


@dataclass(frozen=True, slots=True)
class PairedResult:
    """The differences first minus second over n seeds.

    Attributes:
        mean: their mean.
        low, high: the paired-t interval of the mean; None with fewer than 2 pairs.
        confidence: of the interval.
        p: two-sided, of the exact sign-flip test; None without pairs.
        exact: whether all 2^n sign flips were looked at.
    """

    n: int
    mean: float
    low: float | None
    high: float | None
    confidence: float
    p: float | None
    exact: bool

    @property
    def enough(self) -> bool:
        """Whether a two-sided test at 5% could come out significant at all."""
        return self.n >= LEAST_PAIRS


def paired(differences: npt.ArrayLike, *, confidence: float = 0.95) -> PairedResult:
    """Interval and test for the mean of per-seed ``differences``, shape (n,)."""
    values = _checked(differences)
    n = len(values)
    if n == 0:
        return PairedResult(0, math.nan, None, None, confidence, None, True)
    low, high = t_interval(values, confidence=confidence) if n > 1 else (None, None)
    return PairedResult(n, float(values.mean()), low, high, confidence, sign_flip_p(values), n <= _MOST_EXACT)


def t_interval(differences: npt.ArrayLike, *, confidence: float = 0.95) -> tuple[float, float]:
    """``mean ± t(n-1) s / sqrt(n)`` of at least two differences."""
    values = _checked(differences)
    if len(values) < 2:
        raise AnalysisError(f"an interval needs at least 2 pairs, got {len(values)}")
    half = student.ppf((1 + confidence) / 2, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values))
    return float(values.mean() - half), float(values.mean() + half)


def sign_flip_p(differences: npt.ArrayLike, *, seed: int = 0, draws: int = 100_000) -> float:
    """Two-sided p-value of the mean under independent sign flips (Fisher 1935): share of flips at least as far from 0.

    All 2^n flips up to n = 22; above, ``draws`` random ones with the observed one counted in.
    """
    values = _checked(differences)
    if len(values) == 0:
        raise AnalysisError("a sign-flip test needs at least one pair")
    observed = abs(values.sum())
    # Sums of the same numbers in another order may differ in the last bits.
    bar = observed - 1e-12 * max(float(np.abs(values).sum()), 1e-300)
    if len(values) > _MOST_EXACT:
        signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=(draws, len(values)))
        return float((1 + np.count_nonzero(np.abs(signs @ values) >= bar)) / (draws + 1))
    # The first sign stays: flipping all signs gives the same distance from 0.
    sums = values[:1].copy()
    for value in values[1:]:
        sums = np.concatenate([sums + value, sums - value])
    return float(np.count_nonzero(np.abs(sums) >= bar) / len(sums))


def smallest_p(n: int) -> float:
    """The least two-sided p-value that a sign-flip test of ``n`` pairs can have: all differences of one sign."""
    return min(1.0, 2.0 / 2.0**n)


def least_pairs(comparisons: int) -> int:
    """The fewest pairs in each of so many comparisons with which Holm's correction leaves 5% within reach."""
    n = LEAST_PAIRS
    while comparisons * smallest_p(n) >= ALPHA:
        n += 1
    return n


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """P-values adjusted for being several (Holm 1979), in the given order: reject where the adjusted one is small.

    ``max over j <= i of min(1, (m - j + 1) p_(j))`` for the i-th smallest of m.

    Raises:
        AnalysisError: a value outside [0, 1].
    """
    if not all(0.0 <= p <= 1.0 for p in p_values):
        raise AnalysisError(f"p-values must lie in [0, 1], got {', '.join(f'{p:g}' for p in p_values)}")
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return tuple(adjusted)


def _checked(differences: npt.ArrayLike) -> npt.NDArray[np.float64]:
    values = np.asarray(differences, dtype=np.float64)
    if values.ndim != 1:
        raise AnalysisError(f"differences must be a list of numbers, got the shape {values.shape}")
    if not np.isfinite(values).all():
        raise AnalysisError("a missing or infinite difference cannot be tested: leave its seed out first")
    return values
