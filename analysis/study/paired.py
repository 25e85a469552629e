"""Differences over the same seeds: what they say of the mean, what merely describes them, and Holm's correction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from analysis.errors import AnalysisError
from analysis.study.bounded_mean import Share, checked, exact_share, finite, p_above, p_below

ALPHA = 0.05
"""The probability that a report decides anything at all wrongly."""
TIE = 1e-12
"""Hypervolumes that differ by less are equal: means of the same numbers in another order differ in the last bits."""
_MOST_EXACT = 22


@dataclass(frozen=True, slots=True)
class PairedResult:
    """The differences first minus second over n seeds, in [-1, 1].

    Attributes:
        mean: their mean.
        p_above, p_below: one-sided, against a mean of at most and of at least 0; valid for any bounded differences.
        ahead: on how many seeds the first is larger, with the exact 95% interval of that share; None without pairs.
        tied: on how many seeds both are the same.
        t_interval: the paired-t interval of the mean at 95%, a description: it holds for normal differences. None with
            fewer than 2 pairs.
        sign_flip_p: of the exact sign-flip test, a description: it holds for symmetric differences. None without pairs.
    """

    n: int
    mean: float
    p_above: float
    p_below: float
    ahead: Share | None
    t_interval: tuple[float, float] | None
    sign_flip_p: float | None
    tied: int = 0

    @property
    def p(self) -> float:
        """Two-sided, for this comparison alone."""
        return min(1.0, 2 * min(self.p_above, self.p_below))


def paired(differences: npt.ArrayLike) -> PairedResult:
    """Tests and descriptions of per-seed ``differences``, shape (n,).

    Raises:
        AnalysisError: a difference is NaN, infinite or outside [-1, 1].
    """
    values = checked(differences)
    values = np.where(np.abs(values) < TIE, 0.0, values)
    n = len(values)
    if n == 0:
        return PairedResult(0, math.nan, 1.0, 1.0, None, None, None)
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


def t_interval(differences: npt.ArrayLike, *, confidence: float = 0.95) -> tuple[float, float]:
    """``mean ± t(n-1) s / sqrt(n)`` of at least two differences.

    Raises:
        AnalysisError: fewer than two, or one is NaN or infinite.
    """
    values = finite(differences)
    if len(values) < 2:
        raise AnalysisError(f"an interval needs at least 2 pairs, got {len(values)}")
    half = stdtrit(len(values) - 1, (1 + confidence) / 2) * values.std(ddof=1) / math.sqrt(len(values))
    return float(values.mean() - half), float(values.mean() + half)


def sign_flip_p(differences: npt.ArrayLike, *, seed: int = 0, draws: int = 100_000) -> float:
    """Two-sided p-value of the mean under independent sign flips (Fisher 1935): share of flips at least as far from 0.

    All 2^n flips up to n = 22; above, ``draws`` random ones with the observed one counted in.

    Raises:
        AnalysisError: no differences, or one is NaN or infinite.
    """
    values = finite(differences)
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
