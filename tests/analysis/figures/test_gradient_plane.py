"""The figure of two gradients: the combined direction, and the objectives that a step lowers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from analysis.figures.gradient_plane import Plane, draw_gradient_plane, plane
from analysis.figures.panels import PanelFigure


def _helps(item: Plane) -> tuple[bool, bool]:
    """Return whether a small step against the direction lowers the retain and the forget objective."""
    assert item.direction is not None
    retain, forget = (bool(np.dot(item.direction, gradient) > 0) for gradient in (item.retain, item.forget))
    return retain, forget


def test_the_plane_of_a_right_angle_and_of_a_conflict() -> None:
    square = plane("", 3.0, 4.0, 0.0, 0.5)
    assert square.retain == (0.75, 0.0)
    assert square.forget == pytest.approx((0.0, 1.0))
    assert square.direction == pytest.approx((0.6, 0.8))
    assert _helps(square) == (True, True)
    # The gradients are opposed and forgetting has all the weight, so the retain objective rises.
    opposed = plane("", 1.0, 1.0, -1.0, 0.0)
    assert _helps(opposed) == (False, True)
    # Equal weights of opposite gradients cancel.
    assert plane("", 1.0, 1.0, -1.0, 0.5).direction is None
    assert plane("", 0.0, 0.0, 0.0, 0.5).direction is None


def test_ngdiffs_direction_lowers_both_objectives_whatever_the_gradients() -> None:
    """Lemma 2 of arXiv:2410.22086: with weights 1/|g|, c_t = |g_F| / (|g_R| + |g_F|)."""
    for cosine in (-0.99, -0.3, 0.0, 0.8):
        for retain, forget in ((1.0, 100.0), (5.0, 0.01)):
            found = plane("", retain, forget, cosine, forget / (retain + forget))
            assert _helps(found) == (True, True)


@pytest.mark.parametrize("cosine", [-1.0, -0.4, 0.0, 0.9])
def test_the_shaded_half_is_where_a_gradient_points(cosine: float) -> None:
    item = plane("", 3.0, 4.0, cosine, 0.5)
    (axes,) = draw_gradient_plane(PanelFigure("", "", (item,))).axes
    square = np.array(list(itertools.product(np.linspace(-1.24, 1.24, 9), repeat=2))) + 0.003
    for gradient, polygon in zip((item.retain, item.forget), axes.patches, strict=True):
        assert (polygon.get_path().contains_points(square) == (square @ gradient > 0)).all()
    (axes,) = draw_gradient_plane(PanelFigure("", "", (plane("", 0.0, 0.0, 0.0, 0.5),))).axes
    assert not list(axes.patches), "a gradient of length zero shades nothing"
