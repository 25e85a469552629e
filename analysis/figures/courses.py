"""How training went: metrics, gradients and learning rates over steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from analysis.figures.panels import Guide, Line, Panel, PanelFigure, colours_of, finite_line, scale_for
from analysis.figures.selection import METRICS, label_of, numbers, shown_trials, trial_name
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable

_GRADIENTS = ("grad_norm_retain", "grad_norm_forget", "grad_cosine", "c_t", "lr")
_MOST_POINTS = 400


def metrics_data(table: TrialTable, sweep: SweepFile) -> PanelFigure | None:
    """Losses, and scores where the history has them, over steps: per method the trial nearest to the ideal corner.

    Each course begins at step 0 with the No-unlearn model, where that was measured. None without a history.
    """
    trials = shown_trials(table, sweep)
    panels = tuple(_panels(table, trials, METRICS, baseline=dict(sweep.baseline), guess=sweep.random_guess_loss))
    if not panels:
        return None
    return PanelFigure(
        name="metrics_over_steps",
        title="Metrics over steps",
        caption="Per method the finished trial nearest to the ideal corner; step 0 is the No-unlearn model. "
        "Losses and ROUGE are those of the fixed evaluation sets.",
        panels=panels,
    )


def gradients_data(table: TrialTable, sweep: SweepFile) -> PanelFigure | None:
    """Gradient norms, their cosine, ``c_t`` and the learning rate over steps, of the same trials; None if unknown.

    Norms and cosine are only measured by methods that compute the two gradients apart.
    """
    trials = shown_trials(table, sweep)
    panels = tuple(_panels(table, trials, _GRADIENTS, baseline={}, guess=None))
    if not panels:
        return None
    return PanelFigure(
        name="gradients_over_steps",
        title="Gradients and learning rate over steps",
        caption="Means over the steps since the report before. Methods that need one backward pass measure no norms. "
        "A cosine below 0 is a conflict of the two objectives, both minimised.",
        panels=panels,
    )


def _panels(
    table: TrialTable, trials: pd.DataFrame, columns: Sequence[str], *, baseline: dict[str, float], guess: float | None
) -> Iterator[Panel]:
    # By method in the order of the frontier figure, so that a method has one colour everywhere.
    colours = colours_of(sorted({str(method) for method in table.trials["method"]}))
    for column in columns:
        courses = [(row, _course(table, str(row["trial_id"]), column)) for _, row in trials.iterrows()]
        courses = [(row, (steps, values)) for row, (steps, values) in courses if np.isfinite(values).any()]
        if not courses:
            continue
        start = baseline.get(column)
        every = np.concatenate([values for _, (_, values) in courses] + ([np.array([start])] if start else []))
        # Signed quantities and shares stay linear.
        scale = "linear" if column in ("grad_cosine", "c_t", "verbmem", "utility") else scale_for(every.tolist())
        lines = []
        for row, (steps, values) in courses:
            if start is not None and steps[0] > 0:
                steps, values = np.insert(steps, 0, 0.0), np.insert(values, 0, start)
            colour, marker = colours[str(row["method"])]
            line = finite_line(
                trial_name(row), steps, values, colour, look="dots", marker=marker, positive=scale == "log"
            )
            lines += [line] if line else []
        if lines:
            yield Panel(
                title=label_of(column).partition(" (")[0],
                x_label="step",
                y_label=_unit(column) + (", log scale" if scale == "log" else ""),
                lines=tuple(lines),
                guides=_guides(column, lines, guess),
                y_scale=scale,
                y_limits=(-0.03, 1.03) if column in ("c_t", "verbmem", "utility") else None,
            )


def _guides(column: str, lines: Sequence[Line], guess: float | None) -> tuple[Guide, ...]:
    if column == "grad_cosine":
        return (Guide("y", 0.0),)
    if column == "forget_loss" and guess is not None and max(y for line in lines for y in line.ys) > guess / 4:
        return (Guide("y", guess, "random guess"),)
    return ()


def _unit(column: str) -> str:
    label = label_of(column)
    if "(" in label:
        return label.partition("(")[2].rstrip(")")
    return {"grad_cosine": "cosine", "c_t": "c_t"}.get(column, "norm" if column.startswith("grad") else label)


def _course(table: TrialTable, trial_id: str, column: str) -> tuple[np.ndarray, np.ndarray]:
    """Steps and values of one trial, each of shape (reports,), at most 400 of them evenly chosen."""
    rows = table.history_of(trial_id)
    if len(rows) > _MOST_POINTS:
        rows = rows.iloc[np.linspace(0, len(rows) - 1, _MOST_POINTS).round().astype(int)]
    return numbers(rows, "step").to_numpy(), numbers(rows, column).to_numpy()
