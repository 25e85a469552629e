"""Figures of the hypervolume over its cost: over the compute spent, and over the number of learning rates tried."""

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
    """Return the hypervolume over compute: a panel for each problem, and a curve for each method and AutoLR setting.

    Each problem has its own reference box. The result is None before the target exists. Colours identify methods.
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
    """Yield the tuning curve of every verdict, each with its own file name."""
    for verdict in study.verdicts:
        figure = tuning_figure(verdict.curve, title=study.subject(verdict))
        yield replace(figure, name=file_stem("tuning-curve", *verdict.task.names, verdict.variant))


def anytime_figure(
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    title: str = "",
    *,
    looks: Mapping[str, tuple[str, str]] | None = None,
) -> PanelFigure[Panel] | None:
    """Return the hypervolume over compute, with a step curve for each arm; None if there are no points.

    ``curves`` has the (seconds, hypervolumes) of each arm; ``looks`` has its colour, and ``line`` or ``dashed``.
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
    """Return the figure with the expected best of n rates, AutoLR at its cost, and the n at which both are equal."""
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
