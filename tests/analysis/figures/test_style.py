"""The limits of axes, and labels beside points."""

from __future__ import annotations

import pytest

from analysis.figures.style import limits_of, place_beside_line, place_label


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
    """Only the upper left quarter has no points."""
    grid = [(x / 50, y / 50) for x in range(51) for y in range(51) if not (x < 25 and y > 25)]
    box = place_label((0.5, 0.5), 0.2, 0.06, points=grid, line=[])
    assert (box.right < 0.5, box.bottom > 0.5) == (True, True)


def test_a_label_keeps_off_a_line() -> None:
    line = [(0.9, 1.0), (0.9, 0.8), (0.6, 0.8), (0.6, 0.3), (0.0, 0.3)]
    assert place_label((0.9, 0.8), 0.22, 0.06, points=[], line=line).hides([], line) == 0


def test_words_on_a_line_stand_where_they_hide_nothing() -> None:
    assert place_beside_line(0.5, 0.3, 0.1, []) == ("right", "bottom")
    assert place_beside_line(0.5, 0.3, 0.1, [(0.9, 0.55)]) == ("right", "top")
    assert place_beside_line(0.5, 0.3, 0.1, [(0.9, 0.55), (0.8, 0.45)]) == ("left", "bottom")
    assert place_beside_line(0.97, 0.3, 0.1, []) == ("right", "top"), "not out of the plot"


def test_a_small_difference_does_not_fill_an_axis() -> None:
    assert limits_of("linear", [0.541, 0.549], least=0.1) == pytest.approx((0.495, 0.595))
    assert limits_of("linear", [0.041, 0.049], least=0.1) == pytest.approx((-0.003, 0.097)), "from about 0"
    assert limits_of("linear", [1.0, 3.0], least=0.1) == limits_of("linear", [1.0, 3.0])
