"""The charts of the report page: a map of all models over two scores, parallel coordinates, and a trial's course.

They are Vega-Lite specifications without data. The scripts of the page (``analysis/report/templates``) add the data,
and set the titles and scales of the axes.
"""

from __future__ import annotations

from typing import Any

import altair as alt

HEIGHT, PARALLEL_HEIGHT, COURSE_HEIGHT = 420, 290, 210
"""The heights of the charts in pixels. Their width is that of their container."""
_FIT = alt.AutoSizeParams(type="fit", contains="padding")


def map_chart() -> alt.LayerChart | alt.FacetChart:
    """Return a scatter plot with the frontier, the trails of trials, and rings around chosen and pinned models.

    The data sets ``models``, ``trails``, ``frontier``, ``points`` (such as the target) and ``arrows`` (from a score to
    the score after an attack) have the columns ``x`` and ``y``. ``points`` also have the ``side`` and the offset ``dy``
    of their labels, and ``arrows`` the clockwise ``angle`` of their heads in degrees (0: upwards).
    ``guess_x`` and ``guess_y`` have the loss of a random guess on an axis.
    """
    x, y = alt.X("x:Q").axis(tickCount=8), alt.Y("y:Q").axis(tickCount=8)
    group = alt.Color("group:N").legend(orient="top", title=None, symbolOpacity=1)
    brush = alt.selection_interval(name="brush", encodings=["x", "y"])
    trails = (
        _chart("trails").mark_line(strokeWidth=1.2, opacity=0.45).encode(x, y, group, detail="trial:N", order="epoch:Q")
    )
    frontier = _chart("frontier").mark_line(strokeWidth=1.5, strokeDash=[5, 3]).encode(x, y, order="order:Q")
    arrows = _chart("arrows").mark_rule(opacity=0.7).encode(x, y, x2="x2:Q", y2="y2:Q")
    arrow_ends = (
        _chart("arrows")
        .mark_point(shape="triangle", filled=True, size=40)
        .encode(
            x=alt.X("x2:Q"),
            y=alt.Y("y2:Q"),
            angle=alt.Angle("angle:Q").scale(None),
            tooltip=["name:N"],
            description="name:N",
        )
    )
    models = (
        _chart("models")
        .mark_circle(cursor="pointer")
        .encode(
            x,
            y,
            group,
            opacity=alt.Opacity("shade:Q").scale(None).legend(None),
            size=alt.Size("size:Q").scale(None).legend(None),
            tooltip=[alt.Tooltip("name:N", title="model"), "status:N", "settings:N", "x:Q", "y:Q"],
            description="name:N",
        )
        .add_params(brush)
    )
    points = (
        _chart("points")
        .mark_point(strokeWidth=2)
        .encode(
            x, y, shape=alt.Shape("shape:N").scale(None).legend(None), size=alt.Size("size:Q").scale(None).legend(None)
        )
    )
    guesses = [_guess("guess_x").encode(x), _guess("guess_y").encode(y)]
    labels = (
        _chart("points")
        .mark_text(
            align=alt.expr("datum.side === 'right' ? 'left' : 'right'"),
            dx=alt.expr("datum.side === 'right' ? 11 : -11"),
            dy=alt.expr("datum.dy"),
            fontWeight="bold",
        )
        .encode(x, y, text="label:N")
    )
    chart = alt.layer(*guesses, trails, frontier, arrows, arrow_ends, models, points, labels)
    return chart.properties(width="container", height=HEIGHT, autosize=_FIT)


def parallel_chart() -> alt.Chart | alt.FacetChart:
    """Return parallel coordinates: a line per model over the share of each score's range, from ``worst`` to ``best``.

    The data set ``lines`` has the columns ``row``, ``column`` (label), ``share``, ``value``, ``group`` and ``shade``.
    """
    brush = alt.selection_interval(name="brush", encodings=["x", "y"])
    chart: alt.Chart = (
        _chart("lines")
        .mark_line(strokeWidth=1.2)
        .encode(
            x=alt.X("column:N", sort=None)
            .axis(title=None, labelAngle=-20, labelLimit=330, labelOverlap=False, grid=True, domain=False)
            .scale(type="point"),
            y=alt.Y("share:Q")
            .scale(domain=[0, 1])
            .axis(title=None, values=[0, 1], labelExpr="datum.value ? 'best' : 'worst'", grid=False),
            color=alt.Color("group:N").legend(None),
            detail="row:N",
            opacity=alt.Opacity("shade:Q").scale(None).legend(None),
            tooltip=["name:N", "column:N", "value:Q"],
        )
        .add_params(brush)
    )
    return chart.properties(width="container", height=PARALLEL_HEIGHT, autosize=_FIT)


def course_chart() -> alt.LayerChart | alt.FacetChart:
    """Return lines of one trial's scores over its epochs.

    The data set ``lines`` has the columns ``x``, ``y`` and ``name``, and ``guess_y`` the loss of a random guess.
    """
    y = alt.Y("y:Q").axis(tickCount=5)
    name = alt.Color("name:N", sort=None).legend(orient="top", title=None)
    lines = _chart("lines").mark_line().encode(alt.X("x:Q"), y, name, tooltip=["name:N", "x:Q", "y:Q"])
    chart = alt.layer(lines, _guess("guess_y").encode(y))
    return chart.properties(width="container", height=COURSE_HEIGHT, autosize=_FIT)


def page_charts() -> dict[str, Any]:
    """Return the specifications of the page's charts."""
    charts = {"map": map_chart(), "parallel": parallel_chart(), "course": course_chart()}
    specs = {name: chart.to_dict() for name, chart in charts.items()}
    return {name: {key: value for key, value in spec.items() if key != "$schema"} for name, spec in specs.items()}


def _chart(data: str) -> alt.Chart:
    return alt.Chart(alt.NamedData(data))


def _guess(data: str) -> alt.Chart:
    rule: alt.Chart = _chart(data).mark_rule(strokeDash=[2, 3], description="the loss of a random guess")
    return rule
