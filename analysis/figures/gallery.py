"""Every figure of a report beyond the frontier, in the order in which a report tells its story."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from analysis.figures.ablation import ablation_data, draw_ablation
from analysis.figures.auto_lr import auto_lr_data, landscape_data
from analysis.figures.courses import gradients_data, metrics_data
from analysis.figures.draw_panels import draw_panels
from analysis.figures.gradient_plane import draw_gradient_plane, gradient_plane_data
from analysis.figures.panels import PanelFigure
from analysis.figures.sensitivity import rate_courses_data, sensitivity_data
from analysis.figures.study import draw_attainment
from analysis.figures.study_data import anytime_panels, attainment_figures, tuning_panels
from analysis.study.lr_study import LrStudy
from analysis.tables.places import Place, place_stem
from analysis.tables.sources import Sources

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_SECTIONS = ("sensitivity", "auto_lr", "compute", "courses", "gradients")


@dataclass(frozen=True, slots=True)
class GalleryFigure:
    """A figure whose data are there: its section, the stem of its files, its words, and how to draw it."""

    section: str
    name: str
    title: str
    caption: str
    draw: Callable[[], Figure]


def gallery(
    sources: Sources, study: LrStudy | None = None, parts: Mapping[Place, Sources] | None = None
) -> Iterator[GalleryFigure]:
    """The figures that the tables, and the study made of them, allow; one whose data are absent is left out.

    With several ``parts`` each gets its own: a trial or a mean is never of two models or data sets.
    """
    found: list[GalleryFigure] = []
    parts = parts or {("", ""): sources}
    for place, part in parts.items():
        items = _of_place(part)
        if len(parts) > 1:
            items = (
                replace(item, name=place_stem(item.name, place), caption=f"{', '.join(place)}. {item.caption}")
                for item in items
            )
        found += items
    over_all = (anytime_panels(sources), *(tuning_panels(study) if study else ()))
    for section, data in zip(("compute", *["auto_lr"] * len(over_all)), over_all, strict=False):
        if data is not None:
            found.append(_panels(section, data))
    labels = tuple(objective.name for objective in sources.sweep.objectives)
    if study is not None and len(labels) == 2:
        for attained in attainment_figures(study, (labels[0], labels[1])):
            draw = partial(draw_attainment, attained)
            found.append(GalleryFigure("auto_lr", attained.name, attained.title, attained.caption, draw))
    order = list(_SECTIONS)
    # The verdict before its details.
    yield from sorted(found, key=lambda item: (order.index(item.section), not item.name.startswith("auto_lr_ablation")))


def _of_place(sources: Sources) -> Iterator[GalleryFigure]:
    """The figures of one model and data set."""
    table, sweep = sources.table, sources.sweep
    panels = (
        ("sensitivity", sensitivity_data(table, sweep)),
        ("sensitivity", rate_courses_data(table, sweep)),
        ("auto_lr", auto_lr_data(sources.auto_lr, table, sweep)),
        ("auto_lr", landscape_data(sources.landscape)),
        ("courses", metrics_data(table, sweep)),
        ("gradients", gradients_data(table, sweep)),
    )
    for section, data in panels:
        if data is not None:
            yield _panels(section, data)
    ablation = ablation_data(table, sweep)
    if ablation is not None:
        draw = partial(draw_ablation, ablation)
        yield GalleryFigure("auto_lr", ablation.name, ablation.title, ablation.caption, draw)
    plane = gradient_plane_data(table, sweep)
    if plane is not None:
        yield GalleryFigure("gradients", plane.name, plane.title, plane.caption, partial(draw_gradient_plane, plane))


def _panels(section: str, data: PanelFigure) -> GalleryFigure:
    return GalleryFigure(section, data.name, data.title, data.caption, partial(draw_panels, data))
