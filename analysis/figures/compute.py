"""Figures of the hypervolume over the time spent, and over the number of learning rates tried."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from analysis.figures.panels import Guide, Line, Panel, PanelFigure, finite_lines, method_colours
from analysis.figures.scales import LEAST_SPAN
from analysis.figures.style import INK, OKABE_ITO
from analysis.frontier.anytime import anytime_data
from analysis.study.lr_study import LrStudy
from analysis.study.tuning_curve import TuningCurve
from analysis.tables.note import note
from analysis.tables.problems import Problem, file_stem
from analysis.tables.sources import Sources
from analysis.tables.trial_table import auto_lr_on


def anytime_panels(parts: Mapping[Problem, Sources]) -> PanelFigure[Panel] | None:
    """Return the hypervolume over the time spent, with a panel for each problem.

    A panel has a curve for each method with and without AutoLR. Colours identify methods. Each problem has its own
    reference box. The result is None if the target does not exist yet.
    """
    drawn = []
    for problem, part in parts.items():
        own = part.table.own
        trials, on = own.trials, auto_lr_on(own.trials)
        curves: dict[str, tuple[Sequence[float], Sequence[float]]] = {}
        for method in trials["method"].unique() if part.sweep.objectives else ():
            for arm, chosen in ((str(method), ~on), (f"{method}, AutoLR", on)):
                of_arm = chosen & (trials["method"] == method)
                if of_arm.any():
                    curve = anytime_data(own.of(trials[of_arm]), part.sweep.objectives)
                    curves[arm] = (curve.seconds.tolist(), curve.hypervolume.tolist())
        colours = method_colours(own)
        looks = {arm: (colours[name], look) for name in own.methods
                 for arm, look in ((name, "line"), (f"{name}, AutoLR", "dashed"))}  # fmt: skip
        figure = anytime_figure(curves, str(problem) if len(parts) > 1 else "", looks=looks)
        drawn += [figure] if figure else []
    if not drawn:
        return None
    panels = tuple(panel for figure in drawn for panel in figure.panels)
    return replace(drawn[0], panels=panels, columns=min(2, len(panels)))


def tuning_panels(study: LrStudy) -> Iterator[PanelFigure[Panel]]:
    """Yield a figure of the tuning curve for every verdict. Each figure has its own file name."""
    for verdict in study.verdicts:
        figure = tuning_figure(verdict.curve, title=study.subject(verdict))
        yield replace(figure, name=file_stem("tuning-curve", *verdict.task.names, verdict.variant))


def anytime_figure(
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    title: str = "",
    *,
    looks: Mapping[str, tuple[str, str]] | None = None,
) -> PanelFigure[Panel] | None:
    """Return the hypervolume over the time spent, with a step curve for each arm; None if there are no points.

    ``curves`` has a pair (seconds, hypervolumes) for each arm. ``looks`` has the colour and the line style (``line`` or
    ``dashed``) of each arm.
    """
    lines: list[Line] = []
    for i, (arm, curve) in enumerate(curves.items()):
        # The hypervolume is 0 until the first trial ends, and constant between two trials.
        stairs = [(0.0, 0.0)]
        for seconds, volume in zip(*curve, strict=True):
            if np.isfinite([seconds, volume]).all():
                stairs += [(seconds, stairs[-1][1]), (seconds, volume)]
        if len(stairs) > 1:
            xs, ys = zip(*stairs, strict=True)
            colour, look = (looks or {}).get(arm, (OKABE_ITO[i % len(OKABE_ITO)], "line"))
            lines += finite_lines(arm, xs, ys, colour, look=look)
    if not lines:
        return None
    panel = Panel(
        title,
        "training and evaluation (trial-seconds)",
        "hypervolume (share of the box)",
        tuple(lines),
        y_least=LEAST_SPAN,
    )
    title = "Hypervolume over compute spent"
    return PanelFigure("anytime_hypervolume", title, (panel,), note("anytime_hypervolume"), columns=1)


def tuning_figure(curve: TuningCurve, *, title: str = "") -> PanelFigure[Panel]:
    """Return a figure of the expected hypervolume of the best of n rates. AutoLR is a point at its cost in runs.

    The n at which hand-tuning equals AutoLR is marked.
    """
    picks, expected = curve.picks.tolist(), curve.expected.tolist()
    ends = (picks[0], max(curve.charge, picks[-1]))
    lines = (
        *finite_lines("best of n fixed rates, expected", picks, expected, OKABE_ITO[0], look="dots"),
        Line("AutoLR", ends, (curve.auto, curve.auto), INK, "dashed"),
        Line("AutoLR, at what it is charged", (curve.charge,), (curve.auto,), INK, "marks", "D"),
    )
    label = "n* < 1: below a single rate" if curve.auto < expected[0] else f"n* = {curve.equals:.3g}"
    guides = () if curve.above_all_rates else (Guide("x", curve.equals, label),)
    axes = ("n, learning rates tried (runs)", "hypervolume (share of the box)")
    return PanelFigure(
        "tuning_curve",
        "How many rates must a person try to equal AutoLR?",
        (Panel(title, *axes, lines, guides=guides, x_whole=True, y_least=LEAST_SPAN),),
        note("tuning_curve"),
        columns=1,
    )
