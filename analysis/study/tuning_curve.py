"""What hand-tuning buys: the expected hypervolume of the best of n learning rates picked at random, and AutoLR's rank.

Exact over all subsets, after Dodge et al. (2019) and the unbiased estimator of Tang et al. (2020).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.errors import AnalysisError
from analysis.study.paired import TIE
from analysis.tables.trade_off import Floats

PROBE_CHARGE = 1.033
"""The paper's AutoLR in runs: two more no-grad forwards on a retain batch every ten steps, 3.3% more FLOPs.

Other rules probe more: :func:`analysis.study.probe_cost.probe_runs` counts."""


@dataclass(frozen=True, slots=True, eq=False)
class TuningCurve:
    """Best of n hand-picked learning rates against one AutoLR run.

    Attributes:
        picks: (L,), n = 1, ..., L: how many runs a person pays for.
        expected: (L,), expected hypervolume of the best of n different learning rates, all subsets alike.
        auto: AutoLR's hypervolume, charged ``charge`` runs.
        equals: the n (in runs, interpolated between whole ones) from which on hand-tuning attains ``auto``: "AutoLR
            equals the best of n* learning rates". Infinite where all L do not, 1 where any number does. The curve may
            fall: what is best on the tuning seeds need not be on those of the report.
        beats_at_cost: whether ``auto`` is above what the person gets for ``charge`` runs.
    """

    picks: npt.NDArray[np.intp]
    expected: Floats
    auto: float
    charge: float
    equals: float
    beats_at_cost: bool

    @property
    def above_all_rates(self) -> bool:
        """Whether no number of hand-picked rates attains AutoLR's hypervolume."""
        return math.isinf(self.equals)


def expected_best(choice: npt.ArrayLike, report: npt.ArrayLike | None = None) -> Floats:
    """For n = 1, ..., L the mean over all subsets of n learning rates of the hypervolume of the chosen one.

    Within a subset the rate with the highest ``choice`` is taken (of equals the first) and its ``report`` counts, both
    of shape (L,): so a person who tunes on some seeds is judged on others. Without ``report`` both are the same.

    The rate with the r-th lowest choice is chosen by C(r-1, n-1) of the C(L, n) subsets.

    Raises:
        AnalysisError: no rates, different lengths, or a value is NaN or infinite.
    """
    chosen = np.asarray(choice, dtype=np.float64)
    scores = chosen if report is None else np.asarray(report, dtype=np.float64)
    if chosen.ndim != 1 or chosen.shape != scores.shape or len(chosen) == 0:
        raise AnalysisError(f"a tuning curve needs one value for each rate, got shapes {chosen.shape}, {scores.shape}")
    if not (np.isfinite(chosen).all() and np.isfinite(scores).all()):
        raise AnalysisError("a missing or infinite hypervolume cannot be ranked: leave its learning rate out first")
    count = len(chosen)
    # Of equals the first wins, so it must come last in the rising order.
    rising = scores[sorted(range(count), key=lambda index: (chosen[index], -index))]
    return np.array(
        [
            sum(math.comb(rank, n - 1) * value for rank, value in enumerate(rising)) / math.comb(count, n)
            for n in range(1, count + 1)
        ]
    )


def tuning_curve(
    choice: npt.ArrayLike, auto: float, *, report: npt.ArrayLike | None = None, charge: float = PROBE_CHARGE
) -> TuningCurve:
    """The curve of :func:`expected_best` and where AutoLR, at ``charge`` runs, meets it.

    Raises:
        AnalysisError: as :func:`expected_best`, or ``auto`` or ``charge`` is no finite number, or ``charge`` below 0.
    """
    if not math.isfinite(auto) or not (math.isfinite(charge) and charge > 0):
        raise AnalysisError(f"AutoLR's hypervolume {auto:g} and charge {charge:g} must be finite, the charge above 0")
    expected = expected_best(choice, report)
    picks = np.arange(1, len(expected) + 1)
    paid = float(np.interp(charge, picks, expected))
    return TuningCurve(picks, expected, auto, charge, _reached(expected, auto), auto > paid + TIE)


def _reached(expected: Sequence[float] | Floats, auto: float) -> float:
    """The n, interpolated, from which on ``expected(n) >= auto``."""
    below = np.flatnonzero(np.asarray(expected) < auto - TIE)
    if len(below) == 0:
        return 1.0
    last = int(below[-1])
    if last == len(expected) - 1:
        return math.inf
    before, after = expected[last], expected[last + 1]
    return float(last + 1 + (auto - before) / (after - before))
