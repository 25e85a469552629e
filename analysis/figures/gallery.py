"""List all figures of a report except the frontier figure, in the order of the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.figures.ablation import ablation_data, draw_ablation
from analysis.figures.auto_lr import auto_lr_data, landscape_data
from analysis.figures.compute import (
    anytime_panels,
    attainment_figures,
    draw_attainment,
    tuning_figures,
)
from analysis.figures.courses import final_metrics_data, gradients_data, metrics_data, rate_courses_data
from analysis.figures.gradient_plane import draw_gradient_plane, gradient_plane_data
from analysis.figures.panels import PanelFigure, draw_panels
from analysis.study.lr_study import LrStudy
from analysis.tables.problems import Problem, file_stem
from analysis.tables.sources import Sources

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES: tuple[tuple[str, Callable[[Sources], PanelFigure[Any] | None], Callable[[Any], Figure]], ...] = (
    ("sensitivity", final_metrics_data, draw_panels),
    ("sensitivity", rate_courses_data, draw_panels),
    ("auto_lr", ablation_data, draw_ablation),
    ("auto_lr", auto_lr_data, draw_panels),
    ("auto_lr", landscape_data, draw_panels),
    ("courses", metrics_data, draw_panels),
    ("gradients", gradients_data, draw_panels),
    ("gradients", gradient_plane_data, draw_gradient_plane),
)
"""The figures for one problem: triples (section of the page, data function, draw function)."""
_SECTIONS = ("sensitivity", "auto_lr", "compute", "courses", "gradients")


class GalleryFigure(NamedTuple):
    """A figure: the section of the page, the data, and the function that draws the data."""

    section: str
    data: PanelFigure[Any]
    draw: Callable[[Any], Figure]


def gallery(
    sources: Sources, study: LrStudy | None = None, parts: Mapping[Problem, Sources] | None = None
) -> list[GalleryFigure]:
    """Return the figures that have data. ``parts`` maps each problem to its sources."""
    parts = parts or {Problem("", ""): sources}
    found = []
    for problem, part in parts.items():
        for section, data_of, draw in FIGURES:
            data = data_of(part)
            if data is not None and len(parts) > 1:
                caption = data.caption and replace(data.caption, source=str(problem))
                data = replace(data, name=file_stem(data.name, *problem.names), caption=caption)
            found += [GalleryFigure(section, data, draw)] if data is not None else []
    compute = anytime_panels(parts)
    found += [GalleryFigure("compute", compute, draw_panels)] if compute is not None else []
    if study is not None:
        found += [GalleryFigure("auto_lr", curve, draw_panels) for curve in tuning_figures(study)]
        axes = [objective.name for objective in sources.sweep.objectives]
        if len(axes) == 2:
            attained = attainment_figures(study, (axes[0], axes[1]))
            found += [GalleryFigure("auto_lr", data, draw_attainment) for data in attained]
    # The overall result comes before its details.
    first = "auto_lr_ablation"
    return sorted(found, key=lambda item: (_SECTIONS.index(item.section), not item.data.name.startswith(first)))
