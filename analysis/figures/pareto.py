"""The frontier figure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from analysis.figures.panels import Band, Guide, Line, Marker, Panel, PanelFigure, colours_of, finite_lines
from analysis.figures.style import INK, MIN_SPAN, MUTED, SHADE, limits_of, scale_for
from analysis.frontier.choice import Choice, choose_model
from analysis.frontier.frontier import Frontier, Model, frontier, selectable_models
from analysis.tables.note import Note, note
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trade_off import Floats, measured, values_of
from analysis.tables.trial_table import STATUSES, TrialTable, auto_lr_on
from analysis.words import number
from search_spaces.common.objective import Objective

_SIZE = (10.0, 6.875)
"""The size in inches, which is 1600 x 1100 pixels."""
_LABEL_WIDTH = 27
"""The maximum number of letters per line in the legend entry of the chosen model."""
_FOUR_POINTED_STAR = (4, 1, 0)
_UNFINISHED_MARKERS = {"stopped": "+", "diverged": "x", "failed": "1"}


def pareto_figure(table: TrialTable, sweep: SweepFile, choice: Choice | None = None) -> PanelFigure:
    """Return the figure of all models over the first two objectives.

    It shows the models that can be selected (:func:`selectable_models`) and those of unfinished trials. Models on the
    frontier are large. If the figure has both AutoLR and fixed-rate trials, the latter are hollow. Models of an
    external table are stars. Scores are clipped to the bounds of the objectives. With two objectives, a line bounds
    the dominated region. A ring marks the chosen model, and thin lines join the epochs of trials on the frontier.

    Raises:
        AnalysisError: the table lacks the column of an objective.
        ValueError: the sweep has fewer than two objectives.
    """
    if len(sweep.objectives) < 2:
        raise ValueError(f"a frontier needs at least two objectives, got {len(sweep.objectives)}")
    front = frontier(table.models, sweep.objectives)
    pair = sweep.objectives[:2]
    # A model without all objectives cannot be on the frontier, so it is not drawn.
    selectable = selectable_models(table, sweep).trials
    finished = selectable.loc[measured(values_of(selectable, sweep.objectives))]
    lines = [*_models(table, finished, front, pair), *_target(sweep, pair)]
    for status in STATUSES[1:]:
        points = _clipped(table.with_status(status), pair)
        lines += _lines(status, points, MUTED, style="marks", marker=_UNFINISHED_MARKERS[status])
    x_label, x_scale, x_limits, x_guess = _axis(pair[0], [x for line in lines for x in line.xs], sweep)
    y_label, y_scale, y_limits, y_guess = _axis(pair[1], [y for line in lines for y in line.ys], sweep)
    staircase = _staircase(front) if len(sweep.objectives) == 2 else ()
    bands: tuple[Band, ...] = ()
    if staircase:
        xs, ys = zip(*staircase, strict=True)
        lines.append(Line("attained frontier", xs, ys, INK))
        bands = (Band("dominated", xs, ys, (pair[1].worst,) * len(xs), SHADE, opacity=1.0),)
    lines += _paths(table, front, pair)
    lines += _ring(choice or choose_model(table, sweep), table, pair)
    guides = [
        Guide(axis, guess, f"random guess, ln|V| = {number(guess)}")
        for axis, guess in (("x", x_guess), ("y", y_guess))
        if guess is not None
    ]
    panel = Panel(
        title="",
        x_label=x_label,
        y_label=y_label,
        lines=tuple(lines),
        bands=bands,
        guides=tuple(guides),
        x_scale=x_scale,
        y_scale=y_scale,
        x_limits=x_limits,
        y_limits=y_limits,
    )
    subtitle = note(
        "frontier_subtitle",
        hypervolume=front.hypervolume,
        ended=len(table.searched),
        planned=table.planned(sweep),
        external=int(table.trials["external"].sum()),
        members=len(front.members),
        every_epoch=table.every_epoch,
    )
    notes = tuple(_notes(table, sweep, front, finished))
    return PanelFigure("pareto", sweep_title(table, sweep), (panel,), subtitle=subtitle, notes=notes, size=_SIZE)


def _clipped(rows: pd.DataFrame, pair: Sequence[Objective]) -> Floats:
    """Return the scores clipped to the bounds of the two objectives, with the shape (rows, 2). Missing ones are NaN."""
    values = values_of(rows, pair)
    return np.column_stack([item.clip(values[:, i]) for i, item in enumerate(pair)])


def _lines(
    name: str, points: Floats, colour: str, *, style: str, marker: Marker = "o", filled: bool = True
) -> tuple[Line, ...]:
    """Return a line through the points, or markers at the points, without those that have a NaN."""
    return finite_lines(name, points[:, 0], points[:, 1], colour, style=style, marker=marker, filled=filled)


def _models(table: TrialTable, finished: pd.DataFrame, front: Frontier, pair: Sequence[Objective]) -> Iterator[Line]:
    own, external = finished[~finished["external"]], finished[finished["external"]]
    has_both = auto_lr_on(own).nunique() == 2
    by_method = {str(method): rows for method, rows in own.groupby("method")}
    by_source = {f"{method} ({source})": rows for (method, source), rows in external.groupby(["method", "sweep"])}
    looks = colours_of(dict.fromkeys([*table.methods, *by_method, *by_source]))
    for name, rows in by_method.items():
        colour, marker = looks[name]
        points, is_on_front = _clipped(rows, pair), rows.index.isin(front.members.index)
        is_filled = auto_lr_on(rows).to_numpy() | (not has_both)
        for style, in_style in (("large", is_on_front), ("pale", ~is_on_front)):
            for filled in (True, False):
                part = points[in_style & (is_filled == filled)]
                yield from _lines(name, part, colour, style=style, marker=marker, filled=filled)
    for name, rows in by_source.items():
        points = _clipped(rows, pair)
        yield from _lines(name, points, looks[name][0], style="large", marker=_FOUR_POINTED_STAR)
    if has_both:
        yield Line("filled: AutoLR", (), (), MUTED, "marks")
        yield Line("hollow: fixed lr", (), (), MUTED, "marks", filled=False)


def _target(sweep: SweepFile, pair: Sequence[Objective]) -> tuple[Line, ...]:
    # A sweep caps the loss of each token. An external table has only the mean loss, so the mean is capped.
    values = [sweep.baseline.get(item.column) for item in pair]
    x, y = (np.nan if value is None else float(item.clip(value)) for item, value in zip(pair, values, strict=True))
    return finite_lines("target (before unlearning)", [x], [y], INK, style="landmark", marker="*", filled=False)


def _ring(choice: Choice, table: TrialTable, pair: Sequence[Objective]) -> tuple[Line, ...]:
    if choice.row is None:
        return ()
    points, model = _clipped(choice.row.to_frame().T.infer_objects(), pair), Model.of(choice.row, table)
    role = "recommended" if choice.recommended else "chosen, but not recommended"
    label = "\n".join(textwrap.fill(text, _LABEL_WIDTH) for text in (f"{role}: {model.name}", model.settings))
    return _lines(label, points, INK, style="ring")


def _paths(table: TrialTable, front: Frontier, pair: Sequence[Objective]) -> Iterator[Line]:
    if table.every_epoch:
        models = table.models.trials
        for _, epochs in models[models["trial_id"].isin(front.trial_ids)].groupby("trial_id"):
            path = _lines("epochs of a trial", _clipped(epochs.sort_values("step"), pair), MUTED, style="thin")
            yield from (line for line in path if len(line.xs) > 1)


def _axis(
    objective: Objective, values: Sequence[float], sweep: SweepFile
) -> tuple[str, str, tuple[float, float], float | None]:
    """Return the label, the scale and the limits of an axis, and the loss of a random guess if the axis shows it."""
    is_loss = sweep.columns.is_loss(objective.column)
    guess = sweep.random_guess_loss if is_loss else None
    # A minimized loss ranges from 0.01 (memorized data) to 3 (broken model). On a linear axis, all good trials would
    # overlap.
    scale = scale_for(values) if is_loss and objective.direction == "min" else "linear"
    # For a loss to be maximized, the axis includes the guess. A loss to be minimized is far below the guess.
    includes_guess = objective.direction == "max" or not values
    shown_values = [*values, guess] if guess is not None and includes_guess else values
    limits = limits_of(scale, shown_values, min_span=MIN_SPAN)
    if guess is not None and not limits[0] <= guess <= limits[1]:
        guess = None
    # An arrow points to the better side. The label of the y axis is rotated, so a left arrow points down.
    is_low_better = objective.direction == "min"
    label = f"\u2190 better    {objective.label}" if is_low_better else f"{objective.label}    better \u2192"
    return label, scale, limits, guess


def _staircase(front: Frontier) -> tuple[tuple[float, float], ...]:
    if len(front.members) == 0:
        return ()
    first, second = front.objectives
    xs = first.clip(front.values[:, 0]).tolist()
    ys = second.clip(front.values[:, 1]).tolist()
    corners = [(xs[0], second.worst)]
    for x, y in zip(xs, ys, strict=True):
        _, last_y = corners[-1]
        corners += [(x, last_y), (x, y)]
    return tuple(dict.fromkeys([*corners, (first.worst, ys[-1])]))  # without repeated corners


def sweep_title(table: TrialTable, sweep: SweepFile) -> str:
    """Return the title of a sweep, such as ``phi-1.5 on tofu``."""
    names = []
    base = sweep.settings.get("base", sweep.settings)
    for column in ("model", "dataset"):
        values = sorted(set(table.trials[column])) or [str(base.get(column) or "")]
        names.append(", ".join(name for name in values if name))
    return " on ".join(name for name in names if name) or sweep.name


def _notes(table: TrialTable, sweep: SweepFile, front: Frontier, finished: pd.DataFrame) -> Iterator[Note]:
    pair = sweep.objectives[:2]
    if len(finished) == 0:
        yield note("no_trial_drawn", any_ended=len(table.trials) > 0)
    for status in STATUSES[1:]:
        trials = table.with_status(status)
        if len(trials):
            is_drawn = table.every_epoch and measured(values_of(trials, pair)).any()
            yield note("unfinished_trials", status=status, trials=tuple(trials["trial_id"]), drawn=bool(is_drawn))
    finished_ids = set(table.finished["trial_id"])
    if unscored := tuple(trial_id for trial_id in front.unscored if trial_id in finished_ids):
        yield note("unscored_trials", trials=unscored)
    if clipped_count := int((_clipped(finished, pair) != values_of(finished, pair)).any(axis=1).sum()):
        bounds = tuple((objective.low, objective.high) for objective in pair)
        yield note("models_beyond_bounds", count=clipped_count, every_epoch=table.every_epoch, bounds=bounds)
    if len(sweep.objectives) > 2:
        yield note("more_objectives", names=tuple(objective.name for objective in sweep.objectives))
