"""The safe rule: a rate from the curvature along a step, from any start, and a verdict on what it did to the model."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainables.auto_lr.guard import SafetyNet, Seen, harm
from trainables.auto_lr.parabola import Fit, fit_parabola
from trainables.auto_lr.rules import RULES
from trainables.auto_lr.safe import ANNEALED, BEND, CUT, SHARE, TOLERANCE, bending_distance

SAFE = RULES["safe"]
assert SAFE.guard is not None
JUDGE = SAFE.guard.judge


class Parabola:
    """``1 - slope x + curvature x^2 / 2``, in floats of the last digit 1e-7 as float32 has them near 1."""

    def __init__(self, slope: float, curvature: float) -> None:
        self.slope, self.curvature = slope, curvature
        self.probed: list[float] = []

    def loss(self, x: float) -> float:
        return round(1.0 - self.slope * x + self.curvature * x**2 / 2.0, 7)

    def probe(self, x: float) -> Fit:
        self.probed.append(x)
        return fit_parabola(x, self.loss(0.0), self.loss(x), self.loss(-x))


@given(st.sampled_from([1e-5, 1e-4, 1e-3, 1e-2]), st.floats(3e-4, 3e-2), st.sampled_from([-50.0, 0.0, 50.0]))
def test_the_rate_forgets_its_start_and_asks_not_whether_the_step_leads_downhill(
    start: float, distance: float, slope: float
) -> None:
    loss = Parabola(slope, 2.0 * BEND / distance**2)
    proposal, memory = SAFE.propose(SAFE.init(), loss.probe(start), loss.probe)
    assert proposal.eta == pytest.approx(SHARE * distance, rel=1e-2)
    assert memory["rate"] == proposal.eta
    assert len(loss.probed) <= 6


@pytest.mark.parametrize("seed", range(20))
def test_on_a_flat_loss_noise_moves_no_rate_and_says_why(seed: int) -> None:
    noise = random.Random(seed)

    def probe(x: float) -> Fit:
        return fit_parabola(x, *(1.0 + 1e-7 * noise.gauss(0.0, 1.0) for _ in range(3)))

    proposal, memory = SAFE.propose(SAFE.init(), probe(1e-3), probe)
    assert (proposal.eta, proposal.reason, memory["settled"]) == (None, "no curvature", 0)


def test_a_loss_that_is_nowhere_finite_has_no_distance() -> None:
    def probe(x: float) -> Fit:
        return fit_parabola(x, 1.0, math.inf, math.inf)

    assert bending_distance(probe(1e-3), probe) is None


CHOSEN = {**SAFE.init(), "settled": 1, "rate": 1e-3}
GOOD = Seen(harm=0.0, error=0.01, eta=1e-3, step=11, steps=100, every=10)


def test_within_the_tolerance_by_a_standard_error_the_weights_are_kept() -> None:
    assert JUDGE(CHOSEN, GOOD)[0].what == "keep"
    assert JUDGE(CHOSEN, replace(GOOD, harm=TOLERANCE - 0.02))[0].what == "keep"
    assert JUDGE(CHOSEN, replace(GOOD, harm=TOLERANCE - 0.02, error=0.03))[0].what == "wait"


def test_a_dip_that_comes_back_is_waited_for_and_one_that_does_not_is_rolled_back() -> None:
    memory, done = CHOSEN, []
    for step, level in zip(range(11, 101, 10), (2.0, 2.5, 2.0, 1.5, 1.0, 0.8, 0.5, 0.2, 0.1), strict=True):
        verdict, memory = JUDGE(memory, replace(GOOD, harm=level, step=step))
        done.append(verdict.what)
    assert done == ["wait"] * 7 + ["keep"] * 2
    memory = CHOSEN
    for step in range(11, 61, 10):
        verdict, memory = JUDGE(memory, replace(GOOD, harm=2.0, step=step))
    assert (verdict.what, memory["rate"]) == ("roll back", 1e-3 / CUT)
    assert JUDGE(CHOSEN, replace(GOOD, harm=math.inf))[0].what == "roll back"


def test_the_rate_falls_at_the_end_and_not_before() -> None:
    rates = [JUDGE(CHOSEN, replace(GOOD, step=step))[0].eta for step in range(1, 101)]
    assert all(rate == 1e-3 for rate in rates[: int(100 * (1.0 - ANNEALED))])
    assert rates == sorted(rates, reverse=True)
    assert 0.0 < rates[-1] < 1e-4


def test_differences_are_paired_by_example() -> None:
    first = [0.1, 5.0, 2.0]
    assert harm(first, [value + 0.2 for value in first]) == (pytest.approx(0.2), pytest.approx(0.0, abs=1e-12))
    assert harm([0.0, 0.0], [0.1, 0.3]) == (pytest.approx(0.2), pytest.approx(0.1))
    assert harm([0.0], [math.nan]) == (math.inf, math.inf)


def test_the_net_goes_back_to_the_last_state_that_was_kept() -> None:
    state = {"x": 1.0}
    net = SafetyNet(lambda: [state["x"]], save=lambda: dict(state), restore=state.update)
    assert net.begin(0) == 1.0
    state["x"] = 1.5
    net.keep(10)
    state["x"] = 9.0
    assert net.harm() == (8.0, 0.0)
    assert (net.roll_back(25), state["x"]) == (15, 1.5)
    assert net.roll_back(40) == 15, "steps undone already are not counted again"
