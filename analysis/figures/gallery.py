"""List all figures of a report except the frontier figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from analysis.figures.ablation import ablation_data
from analysis.figures.attacked import attacked_figure
from analysis.figures.attainment import attainment_figures
from analysis.figures.auto_lr import auto_lr_data
from analysis.figures.compute import anytime_figure
from analysis.figures.courses import final_metrics_data, gradients_data, lr_curves_data, metrics_data
from analysis.figures.gradient_plane import gradient_plane_data
from analysis.figures.landscape import landscape_data
from analysis.figures.over_options import over_options_data
from analysis.figures.panels import PanelFigure
from analysis.figures.tuning_curve import tuning_figures
from analysis.study.lr_study import LrStudy
from analysis.tables.sources import Sources
from analysis.tables.tasks import Task, file_stem

FIGURES: tuple[tuple[str, Callable[[Sources], PanelFigure | None]], ...] = (
    ("attacks", attacked_figure),
    ("sensitivity", final_metrics_data),
    ("sensitivity", lr_curves_data),
    ("sensitivity", over_options_data),
    ("auto_lr", ablation_data),
    ("auto_lr", auto_lr_data),
    ("auto_lr", landscape_data),
    ("compute", anytime_figure),
    ("courses", metrics_data),
    ("gradients", gradients_data),
    ("gradients", gradient_plane_data),
)
"""Pairs (section of the page, function that returns the figure of one task or None), in the order of the figures."""


def gallery(sources: Mapping[Task, Sources], study: LrStudy | None = None) -> list[tuple[str, PanelFigure]]:
    """Return the figures that have data, as pairs (section of the page, figure)."""
    figures = []
    for section, data_of in FIGURES:
        for task, source in sources.items():
            data = data_of(source)
            if data is None:
                continue
            if len(sources) > 1:
                caption = replace(data.caption, source=str(task)) if data.caption else None
                data = replace(data, name=file_stem(data.name, *task.names), caption=caption)
            figures.append((section, data))
    if study is not None:
        first_source = next(iter(sources.values()))
        objectives = [item.name for item in first_source.sweep.objectives]
        figures += [("auto_lr", data) for data in tuning_figures(study)]
        figures += [("auto_lr", data) for data in attainment_figures(study, objectives)]
    return figures
