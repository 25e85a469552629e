"""Figures of the objectives that AutoLR and the best single learning rate attain in a learning-rate study."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from analysis.figures.panels import Band, Line, Panel, PanelFigure
from analysis.figures.style import OKABE_ITO
from analysis.frontier.indicators import attainment_difference, attainment_surfaces
from analysis.study.lr_study import LrStudy
from analysis.study.verdict import Verdict
from analysis.tables.note import note
from analysis.tables.problems import file_stem
from analysis.tables.trade_off import Floats
from analysis.words import number

_ARM_COLOURS = OKABE_ITO[:2]


def attainment_figures(study: LrStudy, objectives: Sequence[str]) -> Iterator[PanelFigure]:
    """Yield a figure for each verdict with at least two fresh seeds. If there are not two objectives, yield nothing.

    Fresh seeds are the seeds that were not used to choose the best single rate. In these figures, a run is the Pareto
    front over all values of c on one fresh seed. The best single rate has one run for each seed. AutoLR has one run for
    each initial rate and seed.
    """
    for verdict in study.verdicts if len(objectives) == 2 else ():
        if len(verdict.fresh) > 1:
            name = file_stem("attainment", *verdict.task.names, verdict.variant)
            panels = tuple(_panels(study, verdict, objectives))
            yield PanelFigure(name, f"Attained objectives. {study.subject(verdict)}", panels, note("attainment"))


def _panels(study: LrStudy, verdict: Verdict, objectives: Sequence[str]) -> Iterator[Panel]:
    rate = next(iter(verdict.single.choice.values()))
    arms = {
        f"AutoLR {verdict.variant}": study.grid.arm(verdict.task, verdict.variant).values(),
        f"lr {number(rate)}": [study.grid.arm(verdict.task)[rate]],
    }
    runs = [
        [points for units in arm for seed in verdict.fresh if (points := units[seed].points()) is not None]
        for arm in arms.values()
    ]
    x_label, y_label = (f"\u2190 better    {name} as a cost" for name in objectives)
    lines = chain.from_iterable(map(_surfaces, arms, runs, _ARM_COLOURS))
    yield Panel("region attained by one, half, and all runs", x_label, y_label, tuple(lines), square=(0.0, 1.0))
    bands = tuple(
        Band("", (left, right), (low, low), (high, high), _ARM_COLOURS[int(share < 0)], 0.1 + 0.8 * abs(share))
        for left, low, right, high, share in attainment_difference(*runs).tolist()
    )
    title = "attained in more runs by" if bands else "both attain each point equally often"
    yield Panel(title, x_label, y_label, (), bands, square=(0.0, 1.0))


def _surfaces(arm: str, runs: Sequence[Floats], colour: str) -> Iterator[Line]:
    """Yield the boundaries of the regions that at least half of the runs, at least one run, and all runs attain."""
    surfaces = attainment_surfaces(runs)
    for count, style in (((len(runs) + 1) // 2, "line"), (1, "dashed"), (len(runs), "dashed")):
        points = surfaces[count - 1]
        if len(points):
            xs, ys = points[np.argsort(points[:, 0], kind="stable")].T
            yield Line(arm, (*np.repeat(xs, 2), 1.0), (1.0, *np.repeat(ys, 2)), colour, style)
