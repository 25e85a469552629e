"""The figure of empirical attainment, which shows the objective values that two arms attain in their runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.figures.style import MUTED, OKABE_ITO, house_style, legend_of, plots
from analysis.frontier.attainment import AttainmentDifference, AttainmentSurface
from analysis.study.fronts import StudyAttainment, study_attainment
from analysis.study.lr_study import LrStudy
from analysis.tables.note import Note, note
from analysis.tables.problems import file_stem

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True, eq=False)
class AttainmentData:
    """The empirical attainment of two arms, as costs in [0, 1] (smaller is better); ``axes`` names the two costs."""

    title: str
    axes: tuple[str, str]
    attained: StudyAttainment
    name: str = "attainment"
    caption: Note | None = None


def attainment_figures(study: LrStudy, axes: tuple[str, str]) -> Iterator[AttainmentData]:
    """Yield the attainment of AutoLR and of the best single rate for each verdict with at least two fresh seeds."""
    for verdict in study.verdicts:
        if len(verdict.fresh) > 1:
            title = f"Attained objectives. {study.subject(verdict)}"
            stem = file_stem("attainment", *verdict.task.names, verdict.variant)
            yield AttainmentData(title, axes, study_attainment(study.grid, verdict), stem, note("attainment"))


def draw_attainment(data: AttainmentData) -> Figure:
    """Draw the attainment surfaces of both arms, and shade the regions that one arm attains more often."""
    with house_style():
        figure, (left, right) = plots(data.title, 2, 2, width=9.6, height=5.2)
        for surfaces, colour in zip(data.attained.surfaces, OKABE_ITO, strict=False):
            _surfaces(left, surfaces, colour)
        left.set_title("attained by one, half and all runs", loc="left", fontsize=10.5)
        _differences(right, data.attained.arms, data.attained.difference)
        right.set_title("attained in more runs by", loc="left", fontsize=10.5)
        for axes in (left, right):
            labels = [f"{name}, cost from 0 to 1" for name in data.axes]
            across, up = (f"\u2190 better    {label}" for label in labels)
            axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel=across, ylabel=up)
        legend_of(figure, right)
        return figure


def _surfaces(axes: Axes, surfaces: Sequence[AttainmentSurface], colour: str) -> None:
    """Draw the surfaces that one run, half of the runs and all runs attain. Empty surfaces are left out."""
    # The surface of all runs may be empty. Then nothing is drawn instead.
    ends = {surface.runs: surface for surface in [*surfaces[:1], *surfaces[-1:]]}
    middle = (max((surface.runs for surface in surfaces), default=0) + 1) // 2
    looks: list[tuple[AttainmentSurface, float, Any]] = [(surface, 0.9, (0, (3, 2))) for surface in ends.values()]
    looks += [(surface, 2.0, "-") for surface in surfaces if surface.runs == middle]
    for surface, width, look in looks:
        if len(surface.points):
            points = surface.points[np.argsort(surface.points[:, 0], kind="stable")]
            xs, ys = [points[0, 0], *points[:, 0], 1.0], [1.0, *points[:, 1], points[-1, 1]]
            axes.step(xs, ys, where="post", color=colour, linewidth=width, linestyle=look)


def _differences(axes: Axes, arms: Sequence[str], found: AttainmentDifference) -> None:
    from matplotlib.patches import Rectangle

    for i, arm in enumerate(arms):
        axes.add_patch(Rectangle((2, 2), 0, 0, color=OKABE_ITO[i], label=arm))
    boxes = np.asarray(found.boxes, dtype=np.float64).reshape(-1, 4).clip(0.0, 1.0)
    for (left, bottom, right, top), difference in zip(boxes.tolist(), found.differences.tolist(), strict=True):
        if difference:
            colour = OKABE_ITO[0 if difference > 0 else 1]
            strength = 0.1 + 0.8 * min(abs(difference), 1.0)
            size = (right - left, top - bottom)
            axes.add_patch(Rectangle((left, bottom), *size, facecolor=colour, alpha=strength, linewidth=0))
    if not np.any(found.differences):
        axes.text(0.5, 0.5, "no difference", ha="center", color=MUTED)
