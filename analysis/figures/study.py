"""Figures of a study over seeds, from numbers computed elsewhere: attainment, anytime and tuning curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from analysis.figures.panels import Band, Guide, Line, Panel, PanelFigure
from analysis.figures.style import INK, MUTED, OKABE_ITO, house_style
from analysis.objectives import Floats, Objective

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True, eq=False)
class AttainmentData:
    """Empirical attainment of two arms over seeds, as costs in [0, 1], smaller better.

    ``surfaces`` per arm: rows (cost 1, cost 2, percentile) as ``moocore.eaf`` returns them. ``differences``: rows
    (left, bottom, right, top, difference) as ``moocore.eafdiff(rectangles=True)`` returns them, the difference in
    sets of the first arm minus sets of the second; shape (0, 5) if there is none. ``sets``: seeds per arm.
    """

    name: str
    title: str
    caption: str
    objectives: tuple[Objective, Objective]
    arms: tuple[str, str]
    surfaces: Mapping[str, Floats]
    differences: Floats
    sets: int


@dataclass(frozen=True, slots=True)
class AnytimeCurve:
    """The hypervolume reached by an arm after so many trial-seconds; each of length n, seconds not falling."""

    arm: str
    seconds: Sequence[float]
    hypervolumes: Sequence[float]


@dataclass(frozen=True, slots=True)
class TuningCurve:
    """The expected hypervolume of the best of ``runs`` hand-picked rates, its band, and AutoLR charged its runs.

    ``equals_best_of`` is the number of rates at which the curve reaches AutoLR, None if it never does.
    """

    runs: Sequence[float]
    expected: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    auto_lr: float
    auto_lr_runs: float
    equals_best_of: float | None = None


def anytime_data(curves: Sequence[AnytimeCurve]) -> PanelFigure | None:
    """Hypervolume over compute spent, one line of steps per arm; None without a point."""
    lines = []
    for i, curve in enumerate(curves):
        pairs = [(float(s), float(h)) for s, h in zip(curve.seconds, curve.hypervolumes, strict=True)]
        pairs = [pair for pair in pairs if np.isfinite(pair).all()]
        if not pairs:
            continue
        # Between two trials the hypervolume stays what it was.
        stairs = [pairs[0]]
        for seconds, volume in pairs[1:]:
            stairs += [(seconds, stairs[-1][1]), (seconds, volume)]
        xs, ys = zip(*stairs, strict=True)
        lines.append(Line(curve.arm, xs, ys, OKABE_ITO[i % len(OKABE_ITO)]))
    if not lines:
        return None
    panel = Panel("", "compute spent (trial-seconds)", "hypervolume (share of the box)", tuple(lines))
    caption = "The hypervolume of the trials that had ended after so many trial-seconds; failed trials are charged."
    return PanelFigure("anytime_hypervolume", "Hypervolume over compute spent", caption, (panel,), columns=1)


def tuning_data(curve: TuningCurve) -> PanelFigure:
    """The tuning curve with its band, and AutoLR as a line across and a mark at what it is charged."""
    xs = tuple(map(float, curve.runs))
    ends = (min(1.0, *xs), max(curve.auto_lr_runs, *xs)) if len(xs) else (1.0, curve.auto_lr_runs)
    lines = (
        Line("best of n fixed rates, expected", xs, tuple(map(float, curve.expected)), OKABE_ITO[0], "dots"),
        Line("AutoLR", ends, (curve.auto_lr, curve.auto_lr), OKABE_ITO[1], "dashed"),
        Line("AutoLR, at what it is charged", (curve.auto_lr_runs,), (curve.auto_lr,), OKABE_ITO[1], "marks", "D"),
    )
    band = Band("band of the fixed rates", xs, tuple(map(float, curve.low)), tuple(map(float, curve.high)), OKABE_ITO[0])
    known = curve.equals_best_of is not None and np.isfinite(curve.equals_best_of)
    guides = (Guide("x", float(curve.equals_best_of or 0.0), "AutoLR equals the best of this many"),) if known else ()
    panel = Panel("", "n, learning rates tried (runs)", "hypervolume (share of the box)", lines, (band,), guides)
    caption = "Exact expectation over all subsets of n of the rates tried. AutoLR is charged for its probes."
    return PanelFigure("tuning_curve", "How many rates a person must try to equal AutoLR", caption, (panel,), columns=1)


def draw_attainment(data: AttainmentData) -> Figure:
    """The median and extreme attainment of both arms, and beside it where either attains more often."""
    with house_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9.6, 4.6), layout="constrained")
        left, right = figure.subplots(1, 2).tolist()
        for i, arm in enumerate(data.arms):
            _surfaces(left, data, arm, OKABE_ITO[i])
        left.set_title("attained by the best, half and all seeds", loc="left", fontsize=10.5)
        _differences(right, data)
        right.set_title("attained more often by", loc="left", fontsize=10.5)
        for axes in (left, right):
            axes.set_xlim(0, 1)
            axes.set_ylim(0, 1)
            axes.set_aspect("equal")
            axes.set_xlabel(f"\u2190 better    cost: {data.objectives[0].name.replace('_', ' ')} (0 best, 1 worst)")
            axes.set_ylabel(f"\u2190 better    cost: {data.objectives[1].name.replace('_', ' ')} (0 best, 1 worst)")
            axes.legend(loc="upper right", fontsize=8.5)
        figure.suptitle(data.title, x=0.01, ha="left", fontsize=13, fontweight="bold")
        return figure


def _surfaces(axes: Axes, data: AttainmentData, arm: str, colour: str) -> None:
    """The attainment surfaces nearest to the best seed's, the median and all seeds'."""
    rows = np.asarray(data.surfaces[arm], dtype=np.float64).reshape(-1, 3)
    levels = sorted(set(rows[:, 2].tolist()))
    if not levels:
        return
    middle = min(levels, key=lambda level: abs(level - 50.0))
    for level, name, width in ((levels[0], "", 0.8), (middle, arm, 2.0), (levels[-1], "", 0.8)):
        points = rows[rows[:, 2] == level][:, :2]
        points = points[np.argsort(points[:, 0], kind="stable")]
        xs = np.concatenate([[points[0, 0]], points[:, 0], [1.0]])
        ys = np.concatenate([[1.0], points[:, 1], [points[-1, 1]]])
        look = "-" if name else (0, (3, 2))
        axes.step(xs, ys, where="post", color=colour, linewidth=width, linestyle=look, label=name or None)


def _differences(axes: Axes, data: AttainmentData) -> None:
    from matplotlib.patches import Rectangle

    for i, arm in enumerate(data.arms):
        axes.add_patch(Rectangle((2, 2), 0, 0, color=OKABE_ITO[i], label=arm))
    rows = np.asarray(data.differences, dtype=np.float64).reshape(-1, 5)
    for x, y, u, v, difference in rows.tolist():
        if difference == 0:
            continue
        left, bottom, right, top = (float(np.clip(value, 0.0, 1.0)) for value in (x, y, u, v))
        colour = OKABE_ITO[0 if difference > 0 else 1]
        strength = 0.15 + 0.75 * min(abs(difference) / max(data.sets, 1), 1.0)
        size = (max(right - left, 0.0), max(top - bottom, 0.0))
        axes.add_patch(Rectangle((left, bottom), *size, facecolor=colour, alpha=strength, linewidth=0))
    if not rows[:, 4].any():
        axes.text(0.5, 0.5, "no difference", ha="center", color=MUTED)
    axes.plot([], [], color=INK, linewidth=0, label=f"full colour: all {data.sets} seeds")
