"""The rule ``curvature`` finds the same rate from any initial rate."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainables.auto_lr.curvature import BEND, SHARE, find_bending_rate
from trainables.auto_lr.fit import Fit
from trainables.auto_lr.rules import curvature


@given(st.sampled_from([1e-5, 1e-4, 1e-3, 1e-2]), st.floats(3e-4, 3e-2), st.sampled_from([-50.0, 0.0, 50.0]))
def test_the_rate_depends_neither_on_its_start_nor_on_the_slope(start: float, distance: float, slope: float) -> None:
    """Losses are rounded to 1e-7, as float32 rounds near 1."""
    fits: list[Fit] = []

    def probe(x: float) -> Fit:
        rises = (round(1.0 - slope * at + BEND * (at / distance) ** 2, 7) for at in (x, -x))
        fits.append(Fit(x, 1.0, *rises))
        return fits[-1]

    assert curvature(probe(start), probe, 0.0) == pytest.approx(SHARE * distance, rel=1e-2)
    assert len(fits) <= 6


@given(st.integers(0, 10**6), st.sampled_from([1e-5, 1e-3, 1e-1]))
def test_even_on_a_jagged_loss_the_distance_is_found_within_a_factor_of_four(seed: int, start: float) -> None:
    """Rises that scatter around a parabola by a factor of 4 must not make the probes oscillate."""

    def probe(x: float) -> Fit:
        jag = random.Random(f"{seed} {x:.9e}").uniform(-1.0, 1.0)
        loss = 1.0 + BEND * (x / 4e-3) ** 2 * 4.0**jag
        return Fit(x, 1.0, loss, loss)

    distance = find_bending_rate(probe(start), probe)
    assert distance is not None
    assert 4e-3 / 4 <= distance <= 4e-3 * 4


@pytest.mark.parametrize("size", [1e-7, math.inf])
def test_on_a_flat_loss_noise_and_infinities_choose_no_rate(size: float) -> None:
    noise = random.Random(0)

    def probe(x: float) -> Fit:
        return Fit(x, 1.0, *(1.0 + size * noise.gauss(0.0, 1.0) for _ in range(2)))

    for _ in range(20):
        assert curvature(probe(1e-3), probe, 0.0) == "no curvature"
