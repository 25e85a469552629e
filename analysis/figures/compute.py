"""The figure of the hypervolume over the time spent on trials."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from analysis.figures.panels import Line, Panel, PanelFigure, colours_of, figure_of, finite_lines
from analysis.figures.style import MIN_SPAN
from analysis.frontier.frontier import hypervolume
from analysis.tables.note import note
from analysis.tables.sources import Sources
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
