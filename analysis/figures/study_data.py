"""From a study's numbers to the data of its figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from analysis.figures.panels import PanelFigure
from analysis.figures.selection import auto_lr_on, swept
from analysis.figures.study import AttainmentData, Surface, anytime_figure, tuning_figure
from analysis.frontier.anytime import anytime_data
from analysis.study.fronts import study_attainment
from analysis.study.lr_study import LrStudy
from analysis.tables.sources import Sources
from analysis.tables.trial_table import TrialTable
from analysis.words import number

if TYPE_CHECKING:
    from analysis.study.verdict import Verdict


def anytime_panels(sources: Sources) -> PanelFigure | None:
    """Hypervolume over compute, a curve per method and per arm of AutoLR, a panel per model and data set.

    None before the target is made. An arm has one colour in all panels.
    """
    if not sources.sweep.objectives:
        return None
    trials = swept(sources.table.trials)
    on = auto_lr_on(trials)
    places = list(dict.fromkeys(zip(trials["model"], trials["dataset"], strict=True)))
    drawn = []
    for model, dataset in places:
        here = (trials["model"] == model) & (trials["dataset"] == dataset)
        curves: dict[str, tuple[list[float], list[float]]] = {}
        for method in trials["method"].unique():
            for arm, chosen in ((str(method), ~on), (f"{method}, AutoLR", on)):
                of_arm = chosen & (trials["method"] == method)
                if not of_arm.any():
                    continue
                part = TrialTable(trials[of_arm & here], sources.table.history, sources.table.spec_columns)
                curve = anytime_data(part, sources.sweep.objectives)
                curves[arm] = (curve.seconds.tolist(), curve.hypervolume.tolist())
        figure = anytime_figure(curves)
        if figure is not None:
            title = f"{model}, {dataset}" if len(places) > 1 else ""
            drawn.append(replace(figure, panels=tuple(replace(panel, title=title) for panel in figure.panels)))
    if not drawn:
        return None
    panels = tuple(panel for figure in drawn for panel in figure.panels)
    return replace(drawn[0], panels=panels, columns=min(2, len(panels)))


def tuning_panels(study: LrStudy) -> Iterator[PanelFigure]:
    """The tuning curve of every verdict, under a name of its own."""
    for verdict in study.verdicts:
        curve = verdict.curve
        drawn = tuning_figure(
            curve.picks.tolist(), curve.expected.tolist(), auto=curve.auto, charge=curve.charge, equals=curve.equals
        )
        panels = tuple(replace(panel, title=subject(verdict, study)) for panel in drawn.panels)
        yield replace(drawn, name=_stem(drawn.name, verdict), panels=panels)


def attainment_figures(study: LrStudy, axes: tuple[str, str]) -> Iterator[AttainmentData]:
    """Attainment of AutoLR and of the best single rate, for verdicts on two fresh seeds or more."""
    for verdict in study.verdicts:
        if len(verdict.fresh) < 2:
            continue
        found = study_attainment(study.grid, verdict)
        auto, hand = found.arms
        rate = hand.removeprefix("lr ")
        surfaces = {
            arm: [Surface(item.runs, item.points) for item in surface]
            for arm, surface in zip((auto, f"lr {number(float(rate))}"), found.surfaces, strict=True)
        }
        yield AttainmentData(
            f"Attained objectives. {subject(verdict, study)}",
            axes,
            surfaces,
            found.difference.boxes,
            found.difference.differences,
            name=_stem("attainment", verdict),
        )


def subject(verdict: Verdict, study: LrStudy) -> str:
    """Whose verdict it is: the method and AutoLR's variant, and where the study has several also model and data set."""
    problem = verdict.problem
    several = len({(item.model, item.dataset) for item in study.grid.problems}) > 1
    where = f" on {problem.model}, {problem.dataset}" if several else ""
    return f"{problem.method}{where}, AutoLR {verdict.variant}"


def _stem(name: str, verdict: Verdict) -> str:
    problem = verdict.problem
    words = (name, problem.model, problem.dataset, problem.method, verdict.variant)
    return "_".join("".join(c if c.isalnum() else "-" for c in word) for word in words)
