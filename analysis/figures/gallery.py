"""Every figure of a report beyond the frontier, in the order in which a report tells its story."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from analysis.figures.ablation import ablation_data, draw_ablation
from analysis.figures.attainment import attainment_figures, draw_attainment
from analysis.figures.auto_lr import auto_lr_data, landscape_data
from analysis.figures.compute import anytime_panels, tuning_panels
from analysis.figures.courses import gradients_data, metrics_data
from analysis.figures.draw_panels import draw_panels
from analysis.figures.gradient_plane import draw_gradient_plane, gradient_plane_data
from analysis.figures.learning_rates import final_metrics_data, rate_courses_data
from analysis.study.lr_study import LrStudy
from analysis.tables.problems import Problem, file_stem
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
    sources: Sources, study: LrStudy | None = None, parts: Mapping[Problem, Sources] | None = None
) -> Iterator[GalleryFigure]:
    """The figures that the tables, and the study made of them, allow; one whose data are absent is left out.

    With several ``parts`` each gets its own: a trial or a mean is never of two models or data sets.
    """
    found: list[GalleryFigure] = []
    parts = parts or {Problem("", ""): sources}
    for problem, part in parts.items():
        items = list(_of_problem(part))
        if len(parts) > 1:
            items = [
                replace(item, name=file_stem(item.name, *problem), caption=f"{problem}. {item.caption}")
                for item in items
            ]
        found += items
    found += _drawn("compute", anytime_panels(sources), draw_panels)
    labels = tuple(objective.name for objective in sources.sweep.objectives)
    if study is not None:
        for curve in tuning_panels(study):
            found += _drawn("auto_lr", curve, draw_panels)
        for attained in attainment_figures(study, (labels[0], labels[1])) if len(labels) == 2 else ():
            found += _drawn("auto_lr", attained, draw_attainment)
    order = list(_SECTIONS)
    # The verdict before its details.
    yield from sorted(found, key=lambda item: (order.index(item.section), not item.name.startswith("auto_lr_ablation")))


def _of_problem(sources: Sources) -> Iterator[GalleryFigure]:
    """The figures of one model and data set."""
    table, sweep = sources.table, sources.sweep
    yield from _drawn("sensitivity", final_metrics_data(table), draw_panels)
    yield from _drawn("sensitivity", rate_courses_data(table), draw_panels)
    yield from _drawn("auto_lr", auto_lr_data(sources.auto_lr, table, sweep), draw_panels)
    yield from _drawn("auto_lr", landscape_data(sources.landscape, table.columns), draw_panels)
    yield from _drawn("courses", metrics_data(table, sweep), draw_panels)
    yield from _drawn("gradients", gradients_data(table, sweep), draw_panels)
    yield from _drawn("auto_lr", ablation_data(table, sweep), draw_ablation)
    yield from _drawn("gradients", gradient_plane_data(table, sweep), draw_gradient_plane)


class _Captioned(Protocol):
    """What the data of any figure have."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def caption(self) -> str: ...


_Data = TypeVar("_Data", bound=_Captioned)


def _drawn(section: str, data: _Data | None, draw: Callable[[_Data], Figure]) -> list[GalleryFigure]:
    return [] if data is None else [GalleryFigure(section, data.name, data.title, data.caption, partial(draw, data))]
