"""The figure of the retain gradient, the forget gradient and their combination, in the plane of the gradients."""

from __future__ import annotations

import cmath
import math

import numpy as np
import pandas as pd

from analysis.figures.panels import Band, Guide, Line, Panel, PanelFigure, figure_of
from analysis.figures.representatives import shown_trials
from analysis.figures.style import INK, OKABE_ITO
from analysis.tables.note import note
from analysis.tables.sources import Sources
from analysis.tables.trial_table import numbers
from analysis.words import number

_MAX_METHODS = 9
_MAX_COORDINATE = 1.25
"""The largest coordinate in a panel."""


def gradient_plane_data(sources: Sources) -> PanelFigure | None:
    """Return the figure of the gradients of one trial of each method; None if no trial measured the gradients.

    The figure shows the gradients at the step nearest to the middle of the trial.
    """
    panels = (
        _panel(str(row["method"]), sources.table.history_of(str(row["trial_id"])))
        for _, row in shown_trials(sources).iterrows()
    )
    return figure_of(
        [panel for panel in panels if panel is not None][:_MAX_METHODS],
        name="gradient_plane",
        title="The gradients and the direction of each method",
        caption=note("gradient_plane"),
        columns=3,
    )


def plane(norm_retain: float, norm_forget: float, cosine: float, c_t: float) -> tuple[complex, complex, complex]:
    """Return the retain gradient, the forget gradient and the combined direction as complex numbers ``x + iy``.

    The gradients are scaled so that the longer gradient has length 1. The retain gradient lies on the x axis. The
    direction is ``c_t retain + (1 - c_t) forget``, normalized to length 1. If this sum is 0, the direction is 0. The
    training step goes in the opposite direction.
    """
    longest = max(norm_retain, norm_forget) or 1.0
    # Rounding may put a mean of cosines outside [-1, 1].
    cosine = min(max(cosine, -1.0), 1.0)
    retain = complex(norm_retain / longest)
    forget = norm_forget / longest * complex(cosine, math.sqrt(1.0 - cosine**2))
    mixed = c_t * retain + (1 - c_t) * forget
    direction = mixed / abs(mixed) if abs(mixed) > 1e-12 else 0j
    return retain, forget, direction


def _panel(method: str, history: pd.DataFrame) -> Panel | None:
    """Return the panel of a trial; None if no report has all values."""
    columns = ("step", "grad_norm_retain", "grad_norm_forget", "grad_cosine", "c_t")
    values = np.column_stack([numbers(history, name).to_numpy() for name in columns])
    values = values[np.isfinite(values).all(axis=1) & (values[:, 1:3] >= 0).all(axis=1)]
    if len(values) == 0:
        return None
    steps = values[:, 0]
    distances = np.abs(steps - 0.5 * steps.max())
    nearest = np.flatnonzero(distances == distances.min())
    # If two reports are equally near, use the later report.
    step, norm_retain, norm_forget, cosine, c_t = values[nearest[-1]].tolist()
    if method == "ngdiff" and norm_retain + norm_forget > 0:
        # NGDiff uses this ratio at every step, but reports its mean, which is not the ratio of the mean norms.
        c_t = norm_forget / (norm_retain + norm_forget)
    retain, forget, direction = plane(norm_retain, norm_forget, cosine, c_t)
    arrows = (
        (retain, OKABE_ITO[0], "g_R, retain gradient"),
        (forget, OKABE_ITO[1], "g_F, forget gradient"),
        (direction, INK, "d, combined direction (length 1)"),
    )
    halves = ((retain, OKABE_ITO[0], "retain objective falls"), (forget, OKABE_ITO[1], "forget objective falls"))
    return Panel(
        title=f"{method}, step {number(int(step))}\ncosine {number(cosine)}, c_t {number(c_t)}",
        x_label="component along g_R (longer gradient: 1)",
        y_label="component orthogonal to g_R",
        lines=tuple(_arrow(name, vector, colour) for vector, colour, name in arrows if vector),
        bands=tuple(_half_plane(name, vector, colour) for vector, colour, name in halves if vector),
        guides=(Guide("x", 0.0), Guide("y", 0.0)),
        square=(-_MAX_COORDINATE, _MAX_COORDINATE),
    )


def _arrow(name: str, tip: complex, colour: str) -> Line:
    # The barbs of the arrow head are at angles of 0.45 rad to the shaft.
    barb = cmath.rect(0.12, cmath.phase(-tip))
    points = (0j, tip, tip + barb * cmath.rect(1.0, 0.45), tip, tip + barb * cmath.rect(1.0, -0.45))
    return Line(name, tuple(point.real for point in points), tuple(point.imag for point in points), colour)


def _half_plane(name: str, vector: complex, colour: str) -> Band:
    """Return the half-plane of points at an acute angle to ``vector``, which must not point downwards."""
    # A vertical edge is drawn as a very steep edge.
    slope = -vector.real / max(vector.imag, 1e-3 * abs(vector))
    x_range = (-_MAX_COORDINATE, _MAX_COORDINATE)
    return Band(name, x_range, tuple(slope * x for x in x_range), (_MAX_COORDINATE, _MAX_COORDINATE), colour, 0.12)
