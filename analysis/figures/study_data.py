"""From a study's numbers to the data of its figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from analysis.anytime import anytime_data
from analysis.figures.panels import PanelFigure
from analysis.figures.selection import auto_lr_on, swept
from analysis.figures.study import AttainmentData, Surface, anytime_figure, tuning_figure
from analysis.lr_study import LrStudy
from analysis.sources import Sources
from analysis.study_fronts import study_attainment
from analysis.table import TrialTable

if TYPE_CHECKING:
    from analysis.autolr_verdict import Verdict


def anytime_panels(sources: Sources) -> PanelFigure | None:
    """Hypervolume over compute, a curve per method and per arm of AutoLR; None before the target is made."""
    if not sources.sweep.objectives:
        return None
    trials = swept(sources.table.trials)
    on = auto_lr_on(trials)
    curves = {}
    for method in trials["method"].unique():
        for arm, chosen in ((str(method), ~on), (f"{method}, AutoLR", on)):
            rows = trials[chosen & (trials["method"] == method)]
            if len(rows):
                part = TrialTable(rows, sources.table.history, sources.table.spec_columns)
                curve = anytime_data(part, sources.sweep.objectives)
                curves[arm] = (curve.seconds.tolist(), curve.hypervolume.tolist())
    return anytime_figure(curves)


def tuning_panels(study: LrStudy) -> Iterator[PanelFigure]:
    """The tuning curve of every verdict, under a name of its own."""
    for verdict in study.verdicts:
        curve = verdict.curve
        drawn = tuning_figure(
            curve.picks.tolist(), curve.expected.tolist(), auto=curve.auto, charge=curve.charge, equals=curve.equals
        )
        panels = tuple(replace(panel, title=_subject(verdict)) for panel in drawn.panels)
        yield replace(drawn, name=_stem(drawn.name, verdict), panels=panels)


def attainment_figures(study: LrStudy, axes: tuple[str, str]) -> Iterator[AttainmentData]:
    """Attainment of AutoLR and of the best single rate, for verdicts on two fresh seeds or more."""
    for verdict in study.verdicts:
        if len(verdict.fresh) < 2:
            continue
        found = study_attainment(study.grid, verdict)
        surfaces = {
            arm: [Surface(item.runs, item.points) for item in surface]
            for arm, surface in zip(found.arms, found.surfaces, strict=True)
        }
        yield AttainmentData(
            f"Attained objectives. {_subject(verdict)}",
            axes,
            surfaces,
            found.difference.boxes,
            found.difference.differences,
            name=_stem("attainment", verdict),
        )


def _subject(verdict: Verdict) -> str:
    return f"{verdict.problem.method}, AutoLR {verdict.variant}"


def _stem(name: str, verdict: Verdict) -> str:
    words = (name, verdict.problem.model, verdict.problem.method, verdict.variant)
    return "_".join("".join(c if c.isalnum() else "-" for c in word) for word in words)
