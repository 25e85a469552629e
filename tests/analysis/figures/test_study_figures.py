"""The figures of a learning-rate study."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.figures.compute import anytime_panels, draw_attainment, tuning_figure
from analysis.figures.panels import PanelFigure, draw_panels
from analysis.figures.svg import svg_text
from analysis.frontier.attainment import AttainmentDifference, AttainmentSurface
from analysis.study.fronts import StudyAttainment
from analysis.study.tuning_curve import tuning_curve
from analysis.tables.problems import Problem
from analysis.tables.sources import read_source
from tests.analysis.conftest import MakeRow, MakeSweep


def attainment(*surfaces: tuple[AttainmentSurface, ...]) -> PanelFigure[StudyAttainment]:
    """Return the figure of two arms that differ nowhere."""
    nowhere = AttainmentDifference(np.empty((0, 4)), np.empty(0))
    return PanelFigure("attainment", "", (StudyAttainment(("x", "y"), ("a", "b"), surfaces, nowhere),))  # type: ignore[arg-type]


def test_two_arms_that_are_alike_differ_nowhere() -> None:
    surface = (AttainmentSurface(1, 2, np.array([[0.2, 0.2]])), AttainmentSurface(2, 2, np.empty((0, 2))))
    assert "no difference" in svg_text(draw_attainment(attainment(surface, surface)))


def test_what_two_of_three_runs_attain_is_not_drawn_as_attained_by_all() -> None:
    levels = tuple(AttainmentSurface(runs, 3, np.array([[0.2 * runs, 0.2]])) for runs in (1, 2))
    surfaces = (*levels, AttainmentSurface(3, 3, np.empty((0, 2))))
    left = draw_attainment(attainment(surfaces, ())).axes[0]
    looks = [(float(np.asarray(line.get_xdata())[0]), line.get_linestyle()) for line in left.lines]
    assert looks == [(0.2, "--"), (0.4, "-")]


def test_the_hypervolume_stays_between_two_trials(make_sweep: MakeSweep, row: MakeRow) -> None:
    times = {"train_seconds": 10.0, "eval_seconds": 0.0}
    rows = [row(volume, 1e-4, seed, auto=True, **times) for seed, volume in enumerate((0.25, 0.36))]
    data = anytime_panels({Problem("", ""): read_source(make_sweep(rows))})
    assert data is not None
    (line,) = data.panels[0].lines
    stairs = [(0, 0), (10, 0), (10, 0.25), (20, 0.25), (20, 0.36)]
    assert list(zip(line.xs, line.ys, strict=True)) == [pytest.approx(point) for point in stairs]
    assert "trial-seconds" in svg_text(draw_panels(data))
    assert anytime_panels({Problem("", ""): read_source(make_sweep([], name="empty"))}) is None


@pytest.mark.parametrize(("auto", "label"), [(0.3, "n* < 1"), (0.45, "n* = 1.5"), (0.55, None)])
def test_the_tuning_curve_marks_where_it_reaches_auto_lr(auto: float, label: str | None) -> None:
    data = tuning_figure(tuning_curve([0.3, 0.5], auto), name="tuning", title="")
    assert [guide.label.partition(":")[0] for guide in data.panels[0].guides] == ([label] if label else [])
    assert [line.ys for line in data.panels[0].lines[1:]] == [(auto, auto), (auto,)]
    assert all(float(tick).is_integer() for tick in draw_panels(data).axes[0].get_xticks())
