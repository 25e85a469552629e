"""The search rule finds the minimum along a step from any start, and refuses to step uphill."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from trainables.auto_lr.parabola import Fit, fit_parabola
from trainables.auto_lr.rule import Proposal
from trainables.auto_lr.rules import RULES
from trainables.auto_lr.search import MOST_FITS, search
from trainables.auto_lr.step import Update, auto_lr_step

Loss = Callable[[float], float]


def probing(loss: Loss) -> tuple[Callable[[float], Fit], list[float]]:
    seen: list[float] = []

    def probe(x: float) -> Fit:
        seen.append(x)
        return fit_parabola(x, loss(0.0), loss(x), loss(-x))

    return probe, seen


@given(best=st.floats(1e-5, 1e-2), orders=st.floats(-2.9, 2.9))
def test_a_parabola_is_solved_from_three_orders_away(best: float, orders: float) -> None:
    probe, seen = probing(lambda x: (x - best) ** 2)
    found = search(probe(best * 10.0**orders), probe, settled=True).eta
    assert found == pytest.approx(best, rel=1e-3)
    assert len(seen) <= MOST_FITS


def test_a_minimum_nearby_costs_no_further_probe() -> None:
    probe, seen = probing(lambda x: (x - 1e-3) ** 2)
    assert search(probe(5e-4), probe, settled=True).eta == pytest.approx(1e-3)
    assert seen == [5e-4]


def test_if_a_short_probe_sees_rounding_only_it_probes_further_out() -> None:
    """Losses in steps of 1e-6, as float32 has them near 10: at 1e-6 the parabola is noise, at 1e-3 it is not."""

    def rounded(x: float) -> float:
        return round(1.0 + 1000.0 * (x - 1e-3) ** 2, 6)

    probe, _ = probing(rounded)
    start = probe(3e-6)
    assert start.eta_star is None or not 0.5e-3 < start.eta_star < 2e-3
    found = search(start, probe, settled=True).eta
    assert found == pytest.approx(1e-3, rel=0.3)


def test_far_out_on_a_loss_that_is_no_parabola_it_comes_nearer() -> None:
    """``log cosh`` is a parabola near its minimum and straight lines far from it: a fit at 200 says 0.5 whatever."""

    def loss(x: float) -> float:
        return math.log(math.cosh(x - 3.0))

    probe, _ = probing(loss)
    far = probe(200.0)
    assert far.eta_star == pytest.approx(1.5, rel=0.02)
    found = search(far, probe, settled=True).eta
    assert found == pytest.approx(3.0, rel=0.5)
    assert found is not None
    assert loss(found) < loss(far.eta_star or 0.0)


def test_a_concave_descent_continues_until_the_loss_has_fallen() -> None:
    """A cosine from just past its top: no curvature at first, the minimum at pi - 0.3."""
    probe, _ = probing(lambda x: math.cos(x + 0.3))
    first = probe(0.05)
    assert first.fallback == "no curvature"
    found = search(first, probe, settled=True).eta
    assert found is not None
    assert math.cos(found + 0.3) < -0.5


@pytest.mark.parametrize("loss", [lambda x: (x + 1e-3) ** 2, lambda x: x - 0.1 * x**2], ids=["convex", "concave"])
def test_an_ascent_is_refused_at_once(loss: Loss) -> None:
    probe, seen = probing(loss)
    assert search(probe(1e-3), probe, settled=True) == Proposal(None, "no descent")
    assert len(seen) == 1


def test_losses_that_overflow_are_probed_nearer() -> None:
    probe, _ = probing(lambda x: (x - 1e-2) ** 2 if abs(x) < 0.1 else math.inf)
    found = search(probe(1.0), probe, settled=True).eta
    assert found == pytest.approx(1e-2, rel=1e-6)


def test_a_minimum_nearer_than_the_nearest_probe_is_walked_towards_and_never_away_from() -> None:
    """A start more than six strides too far: the step at a rate just measured as too long is not taken."""
    probe, seen = probing(lambda x: (x - 1.0 / 3.0) ** 2)
    found = search(probe(1e4), probe, settled=True).eta
    assert len(seen) == MOST_FITS
    assert found is not None
    assert 1.0 / 3.0 <= found < min(seen)


def test_a_guess_beyond_the_valley_is_probed_nearer_and_a_chosen_rate_is_kept() -> None:
    """Past the valley the walls may be of any shape: at the start, uphill by a lot means too far."""

    def loss(x: float) -> float:
        return (x - 1e-3) ** 2 + 0.1 if abs(x) < 0.01 else 50.0 if x > 0 else 5.0

    probe, _ = probing(loss)
    first = probe(1.0)
    assert first.fallback == "no descent"
    assert search(first, probe, settled=False).eta == pytest.approx(1e-3, rel=1e-6)
    assert search(first, probe, settled=True).eta is None


def test_a_guess_that_harms_little_is_kept_if_the_step_goes_uphill() -> None:
    probe, seen = probing(lambda x: 1.0 + 10.0 * x)
    assert search(probe(1e-3), probe, settled=False).eta is None
    assert len(seen) == 1
    # At 0.1 the loss doubles, at 0.025 it rises by a quarter; 0.00625 is the first that stays within a tenth.
    nearer = search(probe(0.1), probe, settled=False)
    assert nearer.eta == pytest.approx(0.1 / 16)
    assert nearer.reason == "no descent", "a rate used without a minimum has its reason"


def test_it_gives_up_after_a_bounded_number_of_probes() -> None:
    probe, seen = probing(lambda x: math.nan)
    assert search(probe(1.0), probe, settled=True) == Proposal(None, "not finite")
    assert len(seen) == MOST_FITS


def stepped(rule: str, *, lr: float, settled: bool, ascend: bool = False) -> tuple[Update, torch.Tensor]:
    """A step of SGD on ``|x|^2`` under a rule; returns the update and the parameters after it."""
    theta = nn.Parameter(torch.tensor([3.0, -1.0], dtype=torch.float64))
    theta.grad = (-2.0 if ascend else 2.0) * theta.detach()
    optimizer = torch.optim.SGD([theta], lr=lr)
    memory = {**RULES[rule].init(), "settled": int(settled)}
    update, after = auto_lr_step(
        optimizer, [theta], lambda: float(theta.detach().square().sum()), rule=RULES[rule], memory=memory
    )
    assert after == {"settled": int(settled or update.fallback is None)}
    assert optimizer.param_groups[0]["lr"] == update.eta_new
    return update, theta.detach()


@pytest.mark.parametrize("lr", [1e-3, 1e-2, 3.0])
def test_a_step_of_sgd_lands_in_the_minimum_and_keeps_the_rate(lr: float) -> None:
    update, theta = stepped("search", lr=lr, settled=False)
    assert update.fallback is None
    assert update.eta_new == pytest.approx(0.5, rel=1e-6)
    torch.testing.assert_close(theta, torch.zeros(2, dtype=torch.float64), rtol=0, atol=1e-6)


def test_an_ascent_takes_the_optimizers_own_step_at_the_old_rate() -> None:
    update, theta = stepped("search", lr=0.1, settled=True, ascend=True)
    assert (update.fallback, update.eta_new, update.clipped) == ("no descent", 0.1, False)
    torch.testing.assert_close(theta, torch.tensor([3.6, -1.2], dtype=torch.float64))


@pytest.mark.parametrize(("settled", "landed"), [(False, 0.5), (True, 0.02)])
def test_trust_searches_freely_once_and_later_at_most_doubles(settled: bool, landed: float) -> None:
    update, _ = stepped("trust", lr=0.01, settled=settled)
    assert update.eta_new == pytest.approx(landed)
    assert update.clipped is settled
