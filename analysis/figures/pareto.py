"""Compute the data of the frontier figure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.figures.panels import colours_of
from analysis.figures.style import MIN_SPAN, MUTED, limits_of, scale_for
from analysis.frontier.choice import Choice, choose_model
from analysis.frontier.frontier import Frontier, Model, frontier, selectable_models
from analysis.tables.note import Note, note
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trade_off import measured, values_of
from analysis.tables.trial_table import STATUSES, TrialTable, auto_lr_on, numbers
from search_spaces.common.objective import Objective

Position = tuple[float, float]
"""A position in the units of the axes."""


@dataclass(frozen=True, slots=True)
class AxisData:
    """One axis of the frontier figure. ``guess`` is the loss of a random guess; None if the axis does not show it."""

    label: str
    low_is_better: bool
    scale: str
    limits: tuple[float, float]
    guess: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """The models that share one entry of the legend.

    Attributes:
        points: a row for each model, with the columns ``trial_id``, ``epoch`` (NaN if unknown), ``x``, ``y``,
            ``on_front`` and ``filled``. ``x`` and ``y`` are clipped to the bounds of the objectives. ``filled`` is
            false for fixed-rate trials if the figure also has AutoLR trials; otherwise, ``filled`` is true.
        external: whether the models are from an external table.
    """

    name: str
    points: pd.DataFrame
    external: bool = False
    colour: str = MUTED
    marker: str = "o"


@dataclass(frozen=True, slots=True)
class Highlight:
    """The model that :func:`choose_model` chose. ``recommended`` is :attr:`Choice.recommended`."""

    position: Position
    model: Model
    recommended: bool


@dataclass(frozen=True, slots=True, eq=False)
class ParetoData:
    """The data of the frontier figure.

    Attributes:
        methods: a series for each method, with the models that can be selected (:func:`selectable_models`), and a
            series for each method of an external table.
        unfinished: a series for each status except ``finished`` that occurs.
        both_policies: whether the figure has both fixed-rate trials (hollow) and AutoLR trials (filled).
        staircase: the corners of the line that bounds the dominated region; empty if there is no frontier, or if there
            are more than two objectives.
        corner: the reference point, which is the last corner of the dominated region.
        baseline: the position of the target before unlearning; None if the target was not measured.
        highlight: the model that is marked with a ring; None if no model can be chosen.
        paths: a line through all epochs of each trial that has an epoch on the frontier.
    """

    title: str
    subtitle: Note
    x: AxisData
    y: AxisData
    methods: tuple[Series, ...]
    unfinished: tuple[Series, ...]
    both_policies: bool
    staircase: tuple[Position, ...]
    corner: Position
    baseline: Position | None
    highlight: Highlight | None
    notes: tuple[Note, ...]
    paths: tuple[list[Position], ...]


def pareto_data(table: TrialTable, sweep: SweepFile, choice: Choice | None = None) -> ParetoData:
    """Return the data of the frontier figure. The axes are the first two objectives.

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
    own, external = finished[~finished["external"]], finished[finished["external"]]
    has_both = auto_lr_on(own).nunique() == 2
    hollow = set(own.loc[~auto_lr_on(own), "trial_id"]) if has_both else set()
    groups = [(str(method), rows, False) for method, rows in own.groupby("method")]
    groups += [(f"{method} ({source})", rows, True) for (method, source), rows in external.groupby(["method", "sweep"])]
    looks = colours_of(dict.fromkeys([*table.methods, *(name for name, _, _ in groups)]))
    methods = []
    for name, rows, is_external in groups:
        colour, marker = looks[name]
        methods.append(Series(name, _points(rows, pair, front.members.index, hollow), is_external, colour, marker))
    points_by_status = ((status, _points(table.with_status(status), pair)) for status in STATUSES[1:])
    unfinished = tuple(Series(status, points) for status, points in points_by_status if len(points))
    target_values = [sweep.baseline.get(item.column) for item in pair]
    # A sweep caps the loss of each token. An external table has only the mean loss, so the mean is capped.
    clipped = [float(item.clip(value)) for item, value in zip(pair, target_values, strict=True) if value is not None]
    baseline = (clipped[0], clipped[1]) if len(clipped) == 2 else None
    positions = [position for series in (*methods, *unfinished) for position in _positions(series.points)]
    positions += [baseline] if baseline else []
    choice = choice or choose_model(table, sweep)
    return ParetoData(
        title=sweep_title(table, sweep),
        subtitle=note(
            "frontier_subtitle",
            hypervolume=front.hypervolume,
            ended=len(table.searched),
            planned=sweep.planned_trials,
            external=int(table.trials["external"].sum()),
            members=len(front.members),
            every_epoch=table.every_epoch,
        ),
        x=_axis(pair[0], [x for x, _ in positions], sweep),
        y=_axis(pair[1], [y for _, y in positions], sweep),
        methods=tuple(methods),
        unfinished=unfinished,
        both_policies=has_both,
        staircase=_staircase(front) if len(sweep.objectives) == 2 else (),
        corner=(pair[0].worst, pair[1].worst),
        baseline=baseline,
        highlight=_highlight(choice, table, pair),
        notes=tuple(_notes(table, sweep, front, finished)),
        paths=tuple(_paths(table, front, pair)),
    )


def _points(
    rows: pd.DataFrame, pair: Sequence[Objective], on_front: Collection[object] = (), hollow: Collection[str] = ()
) -> pd.DataFrame:
    """Return :attr:`Series.points` for those rows that have both objectives."""
    values = values_of(rows, pair)
    has_both = ~np.isnan(values).any(axis=1)
    x_objective, y_objective = pair
    points = {
        "trial_id": rows["trial_id"],
        "epoch": numbers(rows, "epoch"),
        "x": x_objective.clip(values[:, 0]),
        "y": y_objective.clip(values[:, 1]),
        "on_front": rows.index.isin(list(on_front)),
        "filled": ~rows["trial_id"].isin(hollow),
    }
    return pd.DataFrame(points, index=rows.index).loc[np.asarray(has_both, dtype=bool)]


def _positions(points: pd.DataFrame) -> list[Position]:
    return list(zip(points["x"].tolist(), points["y"].tolist(), strict=True))


def _highlight(choice: Choice, table: TrialTable, pair: Sequence[Objective]) -> Highlight | None:
    if choice.row is None:
        return None
    positions = _positions(_points(choice.row.to_frame().T.infer_objects(), pair))
    return Highlight(positions[0], Model.of(choice.row, table), choice.recommended) if positions else None


def _paths(table: TrialTable, front: Frontier, pair: Sequence[Objective]) -> Iterator[list[Position]]:
    if table.every_epoch:
        models = table.models.trials
        for _, epochs in models[models["trial_id"].isin(front.trial_ids)].groupby("trial_id"):
            path = _positions(_points(epochs.sort_values("step"), pair))
            if len(path) > 1:
                yield path


def _axis(objective: Objective, values: Sequence[float], sweep: SweepFile) -> AxisData:
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
    label = objective.label if scale == "linear" else f"{objective.label}, log scale"
    return AxisData(label, objective.direction == "min", scale, limits, guess)


def _staircase(front: Frontier) -> tuple[Position, ...]:
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
    values = values_of(finished, pair)
    clipped = np.column_stack([item.clip(values[:, i]) for i, item in enumerate(pair)])
    if clipped_count := int((clipped != values).any(axis=1).sum()):
        bounds = tuple((objective.low, objective.high) for objective in pair)
        yield note("models_beyond_bounds", count=clipped_count, every_epoch=table.every_epoch, bounds=bounds)
    if len(sweep.objectives) > 2:
        yield note("more_objectives", names=tuple(objective.name for objective in sweep.objectives))
