"""The search rule finds the minimum along a step from any start, and refuses to step uphill."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from trainables.auto_lr.rule import Fit, Proposal, fit_parabola
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


def rounded(x: float) -> float:
    """Return a loss rounded to 1e-6, as float32 rounds near 10. A parabola fitted at 1e-6 is noise."""
    return round(1.0 + 1000.0 * (x - 1e-3) ** 2, 6)


def valley(x: float) -> float:
    """Return the loss of a parabola that ends in two plateaus of different heights."""
    return (x - 1e-3) ** 2 + 0.1 if abs(x) < 0.01 else 50.0 if x > 0 else 5.0


@pytest.mark.parametrize(
    ("loss", "start", "settled", "low", "high"),
    [
        (lambda x: (x - 1e-3) ** 2, 5e-4, True, 0.999e-3, 1.001e-3),
        (rounded, 3e-6, True, 0.7e-3, 1.3e-3),
        (lambda x: math.log(math.cosh(x - 3.0)), 200.0, True, 1.5, 4.5),  # straight lines far from the minimum
        (lambda x: math.cos(x + 0.3), 0.05, True, 1.8, 3.88),  # concave at first; the loss falls below -0.5
        (lambda x: (x - 1e-2) ** 2 if abs(x) < 0.1 else math.inf, 1.0, True, 0.999e-2, 1.001e-2),
        (lambda x: (x - 1.0 / 3.0) ** 2, 1e4, True, 1.0 / 3.0, 9.0),  # more than six strides too far: a shorter rate
        (valley, 1.0, False, 0.999e-3, 1.001e-3),
        (lambda x: 1.0 + 10.0 * x, 0.1, False, 0.1 / 16.001, 0.1 / 15.999),  # the first rise within a tenth
    ],
    ids=["nearby", "rounding", "far out", "concave", "overflow", "too far", "beyond the valley", "uphill"],
)
def test_a_rate_is_found_near_the_minimum(loss: Loss, start: float, settled: bool, low: float, high: float) -> None:
    probe, seen = probing(loss)
    found = search(probe(start), probe, settled=settled).eta
    assert found is not None
    assert low <= found <= high
    assert len(seen) <= MOST_FITS
    assert len(seen) > 1 or 0.5 <= found / start <= 2.0


@pytest.mark.parametrize(
    ("loss", "start", "settled", "reason", "fits"),
    [
        (lambda x: (x + 1e-3) ** 2, 1e-3, True, "no descent", 1),
        (lambda x: x - 0.1 * x**2, 1e-3, True, "no descent", 1),
        (valley, 1.0, True, "no descent", 1),
        (
            lambda x: 1.0 + 10.0 * x,
            1e-3,
            False,
            "no descent",
            1,
        ),  # the loss rises only a little
        (lambda x: math.nan, 1.0, True, "not finite", MOST_FITS),
    ],
    ids=["convex", "concave", "beyond the valley", "uphill", "nan"],
)
def test_the_current_rate_is_kept(loss: Loss, start: float, settled: bool, reason: str, fits: int) -> None:
    probe, seen = probing(loss)
    assert search(probe(start), probe, settled=settled) == Proposal(None, reason)
    assert len(seen) == fits


def test_a_rate_used_without_a_minimum_has_its_reason() -> None:
    probe, _ = probing(lambda x: 1.0 + 10.0 * x)
    assert search(probe(0.1), probe, settled=False).reason == "no descent"


def stepped(rule: str, *, lr: float, settled: bool, ascend: bool = False) -> tuple[Update, torch.Tensor]:
    """Take an SGD step on ``|x|^2`` with a rule. Return the update and the parameters after the step."""
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
