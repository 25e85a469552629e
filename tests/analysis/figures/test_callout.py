"""Labels beside points."""

from __future__ import annotations

import pytest

from analysis.figures.callout import place_beside_line, place_label


@pytest.mark.parametrize("at", [(0.02, 0.02), (0.98, 0.02), (0.02, 0.98), (0.98, 0.98), (0.5, 0.5)])
def test_a_label_stays_inside_the_plot_and_off_its_point(at: tuple[float, float]) -> None:
    box = place_label(at, 0.2, 0.06, points=[at], line=[])
    assert not box.sticks_out()
    assert box.hides([at], []) == 0


def test_a_wide_label_beside_a_point_in_the_middle_stays_inside() -> None:
    box = place_label((0.5, 0.94), 0.55, 0.08, points=[(0.5, 0.94)], line=[(0.5, 0.94), (0.5, 1.0)])
    assert not box.sticks_out()
    assert box.hides([(0.5, 0.94)], []) == 0


def test_a_label_goes_where_it_hides_nothing() -> None:
    """Three quarters around the point are full of points; the upper left one is free."""
    grid = [(x / 50, y / 50) for x in range(51) for y in range(51) if not (x < 25 and y > 25)]
    box = place_label((0.5, 0.5), 0.2, 0.06, points=grid, line=[])
    assert (box.right < 0.5, box.bottom > 0.5) == (True, True)


def test_a_label_keeps_off_a_line() -> None:
    line = [(0.9, 1.0), (0.9, 0.8), (0.6, 0.8), (0.6, 0.3), (0.0, 0.3)]
    assert place_label((0.9, 0.8), 0.22, 0.06, points=[], line=line).hides([], line) == 0


def test_words_on_a_line_stand_where_they_hide_nothing() -> None:
    assert place_beside_line(0.5, 0.3, 0.1, []) == (True, True)
    assert place_beside_line(0.5, 0.3, 0.1, [(0.9, 0.55)]) == (True, False)
    assert place_beside_line(0.5, 0.3, 0.1, [(0.9, 0.55), (0.8, 0.45)]) == (False, True)
    assert place_beside_line(0.97, 0.3, 0.1, []) == (True, False), "not out of the plot"
