"""Figures of the hypervolume over the time spent on trials, and of tuning curves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from analysis.figures.panels import Guide, Line, Panel, PanelFigure, colours_of, figure_of, finite_lines
from analysis.figures.style import INK, MIN_SPAN, OKABE_ITO
from analysis.frontier.frontier import hypervolume
from analysis.study.lr_study import LrStudy
from analysis.study.tuning_curve import TuningCurve
from analysis.tables.note import note
from analysis.tables.sources import Sources
from analysis.tables.tasks import file_stem
from analysis.tables.trade_off import Floats, scored
from analysis.tables.trial_table import TrialTable, auto_lr_on, is_reused, numbers
from search_spaces.common.front import nondominated
from search_spaces.common.objective import Objective

_HYPERVOLUME = "hypervolume (share of the reference box)"


def anytime_figure(sources: Sources) -> PanelFigure | None:
    """Return the figure of the hypervolume over the time spent on trials; None without objectives or ended trials.

    Each method has up to two curves, one without and one with AutoLR.
    """
    lines = tuple(_anytime_lines(sources))
    panel = Panel("", "training and evaluation (seconds, all trials)", _HYPERVOLUME, lines, y_min_span=MIN_SPAN)
    title = "Hypervolume over training and evaluation time"
    caption = note("anytime_hypervolume")
    return figure_of([panel] if lines else [], name="anytime_hypervolume", title=title, caption=caption)


def anytime_data(table: TrialTable, objectives: Sequence[Objective]) -> tuple[Floats, Floats]:
    """Return the cumulative time in seconds and the hypervolume after each ended trial.

    Both arrays have the shape (ended trials,), in the order in which the trials ended. The time is the sum over the
    trials, which exceeds the wall-clock time if trials run in parallel. A trial with a reused result counts as 0
    seconds.
    """
    trials = table.trials
    if "ended_at" in trials.columns:
        trials = trials.sort_values("ended_at", kind="stable")
    train, evaluation, wall = (numbers(trials, f"{part}_seconds") for part in ("train", "eval", "wall"))
    # Loading is not counted, because the start of a worker would make its first trial seem slower.
    seconds = (train + evaluation.fillna(0.0)).fillna(wall).fillna(0.0).where(~is_reused(trials), 0.0)
    models = table.models.trials.reset_index(drop=True)
    is_scored, costs = scored(models, objectives)
    rows_by_trial = models[is_scored].groupby(["sweep", "trial_id"]).indices
    costs = costs[is_scored]
    volumes = np.zeros(len(trials))
    front = np.empty((0, len(objectives)))
    volume = 0.0
    for index, key in enumerate(zip(trials["sweep"], trials["trial_id"], strict=True)):
        if key in rows_by_trial:
            front = np.vstack([front, costs[rows_by_trial[key]]])
            front = front[nondominated(front)]
            volume = max(volume, hypervolume(front))
        volumes[index] = volume
    return np.cumsum(seconds.to_numpy()), volumes


def _anytime_lines(sources: Sources) -> Iterator[Line]:
    own, objectives = sources.table.without_external, sources.sweep.objectives
    if not objectives:
        return
    is_auto = auto_lr_on(own.trials)
    colours = colours_of(own.methods)
    for method in own.trials["method"].unique():
        colour, _ = colours[method]
        for name, is_in_arm, style in ((method, ~is_auto, "line"), (f"{method}, AutoLR", is_auto, "dashed")):
            trials = own.trials[is_in_arm & (own.trials["method"] == method)]
            if trials.empty:
                continue
            # The hypervolume is 0 until the first trial ends, and constant between two trials.
            points = [(0.0, 0.0)]
            for seconds, volume in zip(*anytime_data(own.with_trials(trials), objectives), strict=True):
                if np.isfinite([seconds, volume]).all():
                    points += [(seconds, points[-1][1]), (seconds, volume)]
            if len(points) > 1:
                xs, ys = zip(*points, strict=True)
                yield from finite_lines(name, xs, ys, colour, style=style)


def tuning_figures(study: LrStudy) -> Iterator[PanelFigure]:
    """Yield the figure of the tuning curve (:class:`TuningCurve`) of each verdict."""
    for verdict in study.verdicts:
        name = file_stem("tuning-curve", *verdict.method_task.names, verdict.variant)
        yield tuning_figure(verdict.curve, name=name, title=study.subject(verdict))


def tuning_figure(curve: TuningCurve, *, name: str, title: str) -> PanelFigure:
    """Return the figure of the expected hypervolume of the best of n randomly picked learning rates, over n.

    A marker shows AutoLR's hypervolume at the cost of one AutoLR run. The vertical line ``n*`` shows how many rates are
    needed to match AutoLR's hypervolume.
    """
    picks, expected = curve.picks.tolist(), curve.expected.tolist()
    x_range = (picks[0], max(curve.charge, picks[-1]))
    lines = (
        *finite_lines("expected best of n fixed rates", picks, expected, OKABE_ITO[0], style="dots"),
        Line("AutoLR", x_range, (curve.auto, curve.auto), INK, "dashed"),
        Line("AutoLR, drawn at its cost in runs", (curve.charge,), (curve.auto,), INK, "marks", "D"),
    )
    is_worse = curve.auto < expected[0]
    label = "n* < 1: AutoLR is worse than one hand-picked rate" if is_worse else f"n* = {curve.equals:.3g}"
    guides = () if curve.above_all_rates else (Guide("x", curve.equals, label),)
    x_label = "number n of learning rates tried"
    panel = Panel(title, x_label, _HYPERVOLUME, lines, guides=guides, x_integer=True, y_min_span=MIN_SPAN)
    return PanelFigure(name, "How many rates must be tried to match AutoLR?", (panel,), note("tuning_curve"))
