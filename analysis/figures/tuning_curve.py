"""The figure of the quality of an automatic rate beside the expected quality of the best of n hand-picked rates.

The expectation is the exact mean over all subsets of n rates (Dodge et al. 2019; unbiased estimator of Tang et al.
2020). The curve is a picture, not a test: the best rate is chosen and reported on the same seeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.figures.panels import Guide, Line, Panel, PanelFigure, finite_lines
from analysis.figures.style import INK, MIN_SPAN, OKABE_ITO
from analysis.study.lr_study import LrStudy
from analysis.study.paired import TIE
from analysis.study.verdict import Verdict
from analysis.tables.columns import short
from analysis.tables.note import note
from analysis.tables.tasks import file_stem
from analysis.tables.trade_off import Floats


@dataclass(frozen=True, slots=True, eq=False)
class TuningCurve:
    """The comparison of an automatic rate with the best of n randomly picked learning rates.

    Attributes:
        expected: the expected quality of the best of n rates, for n = 1, ..., L, shape (L,).
        auto: the quality of the automatic rate.
        charge: the cost of a run with the automatic rate, as a multiple of the mean cost of a fixed-rate run.
    """

    expected: Floats
    auto: float
    charge: float

    @property
    def equals(self) -> float:
        """The smallest n, interpolated, at which ``expected`` reaches ``auto``; infinite if there is no such n."""
        if self.expected[0] >= self.auto - TIE:
            return 1.0
        above = np.flatnonzero(self.expected >= self.auto - TIE)
        if not len(above):
            return math.inf
        before, after = self.expected[above[0] - 1], self.expected[above[0]]
        return float(above[0] + (self.auto - before) / (after - before))


def expected_best(scores: npt.ArrayLike) -> Floats:
    """Return the expected score of the best of n random rates, for n = 1, ..., L, from the scores, shape (L,)."""
    rising = np.sort(np.asarray(scores, dtype=np.float64))
    count = len(rising)
    # The rate with the r-th lowest score is the best one in C(r-1, n-1) of the C(L, n) subsets.
    return np.array(
        [
            sum(math.comb(rank, n - 1) * value for rank, value in enumerate(rising)) / math.comb(count, n)
            for n in range(1, count + 1)
        ]
    )


def tuning_figures(study: LrStudy) -> Iterator[PanelFigure]:
    """Yield the figure of the tuning curve (:class:`TuningCurve`) of each verdict."""
    for verdict in study.verdicts:
        name = file_stem("tuning-curve", *verdict.names)
        yield tuning_figure(tuning_curve(verdict), name=name, title=verdict.subject, verdict=verdict)


def tuning_curve(verdict: Verdict) -> TuningCurve:
    """Compare the quality of an automatic rate with that of hand-picked rates, on the seeds of the verdict."""
    auto, hand = verdict.cost.auto, verdict.cost.hand
    charge = auto.seconds / (hand.seconds / hand.runs) if hand.seconds > 0 else 1.0
    quality = float(np.mean(verdict.auto))
    return TuningCurve(expected_best([rate.quality for rate in verdict.rates]), quality, charge)


def tuning_figure(curve: TuningCurve, *, name: str, title: str, verdict: Verdict) -> PanelFigure:
    """Return the figure of the expected quality of the best of n randomly picked learning rates, over n.

    A marker shows the quality of the automatic rate at the cost of one run. The vertical line ``n*`` shows how many
    rates are needed to match this quality.
    """
    picks, expected = range(1, len(curve.expected) + 1), curve.expected.tolist()
    x_range = (1.0, max(curve.charge, picks[-1]))
    lines = (
        *finite_lines("expected best of n fixed rates", picks, expected, OKABE_ITO[0], style="dots"),
        Line("AutoLR", x_range, (curve.auto, curve.auto), INK, "dashed"),
        Line("AutoLR, drawn at its cost in runs", (curve.charge,), (curve.auto,), INK, "marks", "D"),
    )
    is_worse = curve.auto < expected[0]
    label = "n* < 1: AutoLR is worse than one hand-picked rate" if is_worse else f"n* = {curve.equals:.3g}"
    guides = () if math.isinf(curve.equals) else (Guide("x", curve.equals, label),)
    x_label, y_label = "number n of learning rates tried", f"{short(verdict.quality.measure)} at the thresholds"
    panel = Panel(title, x_label, y_label, lines, guides=guides, x_integer=True, y_min_span=MIN_SPAN)
    return PanelFigure(name, "How many rates must be tried to match AutoLR?", (panel,), note("tuning_curve"))
