"""The plane of two gradients: where the direction lies in it, and which objectives it lowers."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.figures.gradient_plane import Plane, half_plane, plane


def _helps(item: Plane) -> tuple[bool, bool]:
    """Whether a small step against the direction lowers the retain and the forget objective."""
    assert item.direction is not None
    retain, forget = (bool(np.dot(item.direction, gradient) > 0) for gradient in (item.retain, item.forget))
    return retain, forget


def test_the_plane_of_a_right_angle_and_of_a_conflict() -> None:
    square = plane("", 3.0, 4.0, 0.0, 0.5)
    assert square.retain == (0.75, 0.0)
    assert square.forget == pytest.approx((0.0, 1.0))
    assert square.direction == pytest.approx((0.6, 0.8))
    assert _helps(square) == (True, True)
    # Against each other, with all the weight on forgetting: the retain objective rises.
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


def test_a_half_plane_is_half_of_the_square() -> None:
    for normal in ((1.0, 0.0), (1.0, 2.0), (-0.3, 1.0), (1.0, 1.0)):
        corners = np.array(half_plane(normal, 1.0))
        x, y = corners[:, 0], corners[:, 1]
        area = abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2
        assert area == pytest.approx(2.0)
        assert (corners @ normal >= -1e-12).all()
    assert half_plane((0.0, 0.0), 1.0) == []
