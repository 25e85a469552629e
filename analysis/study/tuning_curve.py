"""Compare the hypervolume of AutoLR with the expected hypervolume of the best of n randomly picked learning rates.

The expectation is the exact mean over all subsets of n rates (Dodge et al. 2019; unbiased estimator of Tang et al.
2020).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.study.paired import TIE
from analysis.tables.trade_off import Floats

PROBE_CHARGE = 1.033
"""The cost of the paper's AutoLR, in fixed-rate runs. Two more forward passes for every ten steps add 3.3% FLOPs."""


@dataclass(frozen=True, slots=True, eq=False)
class TuningCurve:
    """The comparison of AutoLR with the best of n randomly picked learning rates.

    Attributes:
        picks: the numbers of rates n = 1, ..., L, shape (L,).
        expected: the expected hypervolume of the best of n rates, shape (L,).
        charge: the cost of an AutoLR run, as a multiple of the cost of a fixed-rate run.
        auto: the hypervolume of AutoLR.
        equals: the smallest n, interpolated, from which on ``expected`` stays at or above ``auto``; infinite if there
            is no such n.
    """

    picks: npt.NDArray[np.intp]
    expected: Floats
    auto: float
    charge: float
    equals: float

    @property
    def above_all_rates(self) -> bool:
        """Whether AutoLR's hypervolume is above the hypervolume of the best of all L rates."""
        return math.isinf(self.equals)


def expected_best(choice: npt.ArrayLike, report: npt.ArrayLike | None = None) -> Floats:
    """Return the expected hypervolume of the best of n random rates, for n = 1, ..., L.

    In each subset of n rates, the rate with the highest ``choice`` is chosen; ties go to the first rate. For each n,
    the result is the mean ``report`` of the chosen rates over all subsets.

    Args:
        choice: the hypervolume of each rate on the tuning seeds, shape (L,).
        report: the hypervolume of each rate on the fresh seeds, shape (L,); by default, ``choice``.
    """
    choice_scores = np.asarray(choice, dtype=np.float64)
    scores = choice_scores if report is None else np.asarray(report, dtype=np.float64)
    count = len(choice_scores)
    # The last rate in this order is chosen, so the first of several equal rates must come last.
    rising = scores[sorted(range(count), key=lambda index: (choice_scores[index], -index))]
    # The rate with the r-th lowest choice is chosen in C(r-1, n-1) of the C(L, n) subsets.
    return np.array(
        [
            sum(math.comb(rank, n - 1) * value for rank, value in enumerate(rising)) / math.comb(count, n)
            for n in range(1, count + 1)
        ]
    )


def tuning_curve(
    choice: npt.ArrayLike, auto: float, *, report: npt.ArrayLike | None = None, charge: float = PROBE_CHARGE
) -> TuningCurve:
    """Compare the curve of :func:`expected_best` with AutoLR's hypervolume ``auto``."""
    expected = expected_best(choice, report)
    picks = np.arange(1, len(expected) + 1)
    return TuningCurve(picks, expected, auto, charge, _reached(expected, auto))


def _reached(expected: Sequence[float] | Floats, auto: float) -> float:
    """Return :attr:`TuningCurve.equals`."""
    below = np.flatnonzero(np.asarray(expected) < auto - TIE)
    if len(below) == 0:
        return 1.0
    # The curve may fall, because the best rate on the tuning seeds may not be the best rate on the fresh seeds.
    last = int(below[-1])
    if last == len(expected) - 1:
        return math.inf
    before, after = expected[last], expected[last + 1]
    return float(last + 1 + (auto - before) / (after - before))
