"""Figures of the objectives that AutoLR and the best fixed learning rate attain in a learning-rate study."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from analysis.figures.panels import Band, Line, Panel, PanelFigure
from analysis.figures.style import OKABE_ITO
from analysis.frontier.indicators import attainment_difference, attainment_surfaces
from analysis.study.lr_grid import SeedFront
from analysis.study.lr_study import LrStudy
from analysis.study.verdict import Verdict
from analysis.tables.note import note
from analysis.tables.tasks import file_stem
from analysis.tables.trade_off import Floats
from analysis.words import number

_AUTO_COLOUR, _FIXED_COLOUR = OKABE_ITO[:2]


def attainment_figures(study: LrStudy, objectives: Sequence[str]) -> Iterator[PanelFigure]:
    """Yield a figure for each verdict with at least two seeds. If there are not two objectives, yield nothing.

    In these figures, a run is the Pareto front over all values of c on one seed. The best fixed rate has one run for
    each seed. AutoLR has one run for each initial rate and seed.
    """
    if len(objectives) != 2:
        return
    for verdict in study.verdicts:
        if len(verdict.seeds) > 1:
            name = file_stem("attainment", *verdict.names)
            panels = tuple(_panels(study, verdict, objectives))
            yield PanelFigure(name, f"Attained objectives. {verdict.subject}", panels, note("attainment"))


def _panels(study: LrStudy, verdict: Verdict, objectives: Sequence[str]) -> Iterator[Panel]:
    rate = verdict.best_lr
    auto_runs = _runs(study.grid.arm(verdict.method_task, verdict.variant).values(), verdict.seeds)
    fixed_runs = _runs([study.grid.arm(verdict.method_task)[rate]], verdict.seeds)
    x_label, y_label = (f"\u2190 better    {name} as a cost" for name in objectives)
    lines = [*_surfaces(f"AutoLR {verdict.variant}", auto_runs, _AUTO_COLOUR)]
    lines += _surfaces(f"lr {number(rate)}", fixed_runs, _FIXED_COLOUR)
    yield Panel("region attained by one, half, and all runs", x_label, y_label, tuple(lines), square=(0.0, 1.0))
    bands = []
    for left, low, right, high, difference in attainment_difference(auto_runs, fixed_runs).tolist():
        colour = _FIXED_COLOUR if difference < 0 else _AUTO_COLOUR
        opacity = 0.1 + 0.8 * abs(difference)
        bands.append(Band("", (left, right), (low, low), (high, high), colour, opacity))
    title = "attained in more runs by" if bands else "both attain each point equally often"
    yield Panel(title, x_label, y_label, (), tuple(bands), square=(0.0, 1.0))


def _runs(fronts_by_seed: Iterable[Mapping[int, SeedFront]], seeds: Sequence[int]) -> list[Floats]:
    """Return the costs of the front on each seed at each rate, without the fronts that lack a cost."""
    all_points = [fronts[seed].points() for fronts in fronts_by_seed for seed in seeds if seed in fronts]
    return [points for points in all_points if points is not None]


def _surfaces(arm: str, runs: Sequence[Floats], colour: str) -> Iterator[Line]:
    """Yield the boundaries of the regions that at least half of the runs, at least one run, and all runs attain."""
    surfaces = attainment_surfaces(runs)
    half = (len(runs) + 1) // 2
    for count, style in ((half, "line"), (1, "dashed"), (len(runs), "dashed")):
        points = surfaces[count - 1]
        if len(points):
            xs, ys = points[np.argsort(points[:, 0], kind="stable")].T
            yield Line(arm, (*np.repeat(xs, 2), 1.0), (1.0, *np.repeat(ys, 2)), colour, style)
