"""How much the outcome of a method depends on its learning rate."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from analysis.figures.panels import (
    Band,
    Gradation,
    Line,
    Panel,
    PanelFigure,
    finite_line,
    graded,
    scale_for,
)
from analysis.figures.selection import METRICS, auto_lr_on, label_of, numbers, swept
from analysis.figures.style import INK, OKABE_ITO
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable

_MOST_POINTS = 200
_MOST_METHODS = 12
_BUDGET = 4000
"""Points of a panel: more would not be seen, and make the page heavy."""


def sensitivity_data(table: TrialTable, sweep: SweepFile) -> PanelFigure | None:
    """Final metrics against the learning rate, a row of panels per method, AutoLR as a line and a band.

    Every fixed-rate trial is a mark; the medians per rate are joined where a rate was tried more than once, or where
    the trials differ in nothing else. AutoLR has no rate to stand at: the median of its trials is a line across, and
    their range a band. None where no method was tried at two rates.
    """
    trials, finished = swept(table.trials), swept(table.finished)
    panels: list[Panel] = []
    methods = [method for method in _methods_with_rates(trials) if method in set(finished["method"])]
    metrics = [name for name in METRICS if np.isfinite(numbers(finished, name)).any()]
    for method in methods:
        rates = {item: _rates(rows, method) for item, rows in (("all", trials), ("finished", finished))}
        absent = tuple(sorted(rates["all"] - rates["finished"]))
        panels += [_final(finished, method, metric, absent) for metric in metrics]
    if not panels:
        return None
    return PanelFigure(
        name="learning_rate_sensitivity",
        title="Final metrics against the learning rate",
        caption="Each mark is a finished trial at a fixed learning rate; a line joins the medians where rates repeat; "
        "a cross on the axis is a rate at which no trial finished. "
        "The dashed line is the median of the AutoLR trials of the method, the band their range. "
        "Trials may differ in more than the learning rate: the table of trials says in what.",
        panels=tuple(panels),
        columns=min(len(metrics), 2),
    )


def rate_courses_data(table: TrialTable, sweep: SweepFile) -> PanelFigure | None:
    """Metrics over steps, one line per trial coloured by its learning rate, AutoLR dashed; None without two rates."""
    trials = swept(table.finished)
    methods = _methods_with_rates(trials)
    trials = trials[trials["method"].isin(methods) & trials["trial_id"].isin(set(table.history["trial_id"]))]
    fixed = numbers(trials[~auto_lr_on(trials)], "lr")
    rates = fixed[fixed > 0]
    panels = []
    if rates.nunique() >= 2:
        low, high = float(rates.min()), float(rates.max())
        for method in methods:
            rows = trials[trials["method"] == method]
            panels += [panel for name in METRICS if (panel := _courses(table, rows, method, name, low, high))]
    if not panels:
        return None
    return PanelFigure(
        name="courses_by_learning_rate",
        title="The course of training at each learning rate",
        caption="One line per finished trial, coloured by its fixed learning rate; dashed: AutoLR.",
        panels=tuple(panels),
        gradation=Gradation("learning rate, log scale", low, high),
    )


def _rates(trials: pd.DataFrame, method: str) -> set[float]:
    """The fixed rates at which a method has trials."""
    rates = numbers(trials[(trials["method"] == method) & ~auto_lr_on(trials)], "lr")
    return set(rates[rates > 0].tolist())


def _methods_with_rates(finished: pd.DataFrame) -> list[str]:
    """The methods that were tried at two fixed rates or more, at most 12: beyond that a figure cannot be read."""
    fixed = finished[~auto_lr_on(finished)]
    rates = numbers(fixed, "lr")
    counts = rates[rates > 0].groupby(fixed["method"]).nunique()
    return sorted(str(method) for method in counts.index[counts >= 2])[:_MOST_METHODS]


def _final(finished: pd.DataFrame, method: str, metric: str, absent: tuple[float, ...]) -> Panel:
    rows = finished[finished["method"] == method]
    on = auto_lr_on(rows)
    fixed = rows[~on]
    rate, value = numbers(fixed, "lr"), numbers(fixed, metric)
    known = np.isfinite(rate) & (rate > 0) & np.isfinite(value)
    rate, value = rate[known], value[known]
    automatic = numbers(rows[on], metric)
    automatic = automatic[np.isfinite(automatic)]
    every = [*value, *automatic]
    scale = scale_for(every) if metric.endswith("loss") else "linear"
    lines: list[Line] = []
    marks = finite_line("fixed learning rate", rate, value, OKABE_ITO[0], look="marks")
    lines += [marks] if marks else []
    medians = value.groupby(rate).median().sort_index()
    if len(medians) > 1 and (len(medians) < len(value) or _alike(fixed)):
        lines.append(Line("", tuple(map(float, medians.index)), tuple(map(float, medians)), OKABE_ITO[0]))
    bands: tuple[Band, ...] = ()
    if len(automatic) and len(rate):
        ends = (min([*rate, *absent]), max([*rate, *absent]))
        middle = float(automatic.median())
        lines.append(Line("AutoLR, median", ends, (middle, middle), OKABE_ITO[1], "dashed"))
        low, high = float(automatic.min()), float(automatic.max())
        bands = (Band("AutoLR, range", ends, (low, low), (high, high), OKABE_ITO[1]),) if high > low else ()
    return Panel(
        title=f"{method}: {label_of(metric).partition(' (')[0]}",
        x_label="learning rate, log scale",
        y_label=label_of(metric).partition("(")[2].rstrip(")") + (", log scale" if scale == "log" else ""),
        lines=tuple(lines),
        bands=bands,
        x_scale="log",
        y_scale=scale,
        y_limits=None if metric.endswith("loss") else (-0.03, 1.03),
        absent=absent,
    )


def _alike(rows: pd.DataFrame) -> bool:
    """Whether the trials differ in no setting but the learning rate."""
    settings = [name for name in ("c", "beta", "alpha", "seed", "epochs", "optimizer", "batch_size") if name in rows]
    return all(rows[name].nunique(dropna=False) <= 1 for name in settings)


def _courses(
    table: TrialTable, rows: pd.DataFrame, method: str, metric: str, low: float, high: float
) -> Panel | None:  # fmt: skip
    drawn = list(_runs(table, rows, metric, points=max(12, min(_MOST_POINTS, _BUDGET // max(1, len(rows))))))
    every = [value for _, _, _, values in drawn for value in values]
    scale = scale_for(every) if metric.endswith("loss") else "linear"
    lines = []
    for rate, automatic, steps, values in drawn:
        colour = INK if automatic else graded(rate, low, high)
        name, look = ("AutoLR", "dashed") if automatic else ("", "line")
        line = finite_line(name, steps, values, colour, look=look, positive=scale == "log")
        lines += [line] if line else []
    if not lines:
        return None
    return Panel(
        title=f"{method}: {label_of(metric).partition(' (')[0]}",
        x_label="step",
        y_label=label_of(metric).partition("(")[2].rstrip(")") + (", log scale" if scale == "log" else ""),
        lines=tuple(lines),
        y_scale=scale,
        y_limits=None if metric.endswith("loss") else (-0.03, 1.03),
    )


def _runs(
    table: TrialTable, rows: pd.DataFrame, metric: str, *, points: int
) -> Iterator[tuple[float, bool, list[float], list[float]]]:
    """(learning rate, whether AutoLR set it, steps, values) of each trial that reported the metric twice or more."""
    for (_, row), automatic in zip(rows.iterrows(), auto_lr_on(rows), strict=True):
        history = table.history_of(str(row["trial_id"]))
        if len(history) > points:
            history = history.iloc[np.linspace(0, len(history) - 1, points).round().astype(int)]
        values = numbers(history, metric)
        if np.isfinite(values).sum() >= 2:
            yield float(row["lr"]), bool(automatic), numbers(history, "step").tolist(), values.tolist()
