"""Every weighting passes the suite, which names a broken promise; zero and parallel gradients have known weights."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.trainables.weightings.gramians import gramian_of, step, weigh
from trainables.testing.weightings import check_weighting
from trainables.weightings import WEIGHTINGS, Gramian, Losses, Needs, Weighting, Weights

MAY_BE_NEGATIVE = {"aligned-mtl", "blur", "pcgrad-paper"}
NOT_SYMMETRIC = {"blur", "pcgrad-paper", "rotograd"}


@pytest.mark.parametrize("weighting", WEIGHTINGS.values(), ids=list(WEIGHTINGS))
def test_every_weighting_passes_the_suite(weighting: Weighting) -> None:
    check_weighting(weighting, non_negative=weighting.name not in MAY_BE_NEGATIVE)


def weighing(rule: Callable[[Losses, Gramian, dict[str, float]], tuple[float, float]]) -> Any:
    """``weigh`` of a method that may change its state in place."""
    return lambda losses, gramian, state, options: (Weights(*rule(losses, gramian, state)), state)


def counting(losses: Losses, gramian: Gramian, state: dict[str, float]) -> tuple[float, float]:
    state["step"] = state.get("step", 0) + 1
    return 1.0, 1.0


def other_draws_each_time(retain: Any, forget: Any, state: Any, options: Any) -> Any:
    return [None if part is None else torch.rand_like(part) for part in (*retain[:1], *forget[1:])], state


SOUND = WEIGHTINGS["ngdiff"]
BROKEN = {
    "may be negative": replace(SOUND, weigh=weighing(lambda losses, g, state: (-1.0, 1.0))),
    "must be finite": replace(SOUND, weigh=weighing(lambda losses, g, state: (g.rr * g.rr, 1.0))),
    "must be finite.*nan": replace(SOUND, needs=Needs.LOSSES),
    "state or options": replace(SOUND, weigh=weighing(counting)),
    "default or bound": replace(WEIGHTINGS["gdiff"], options=(replace(WEIGHTINGS["gdiff"].options[0], default=2.0),)),
    "formula": replace(SOUND, formula=""),
    "the result changes": replace(WEIGHTINGS["graddrop"], combine=other_draws_each_time),
}


@pytest.mark.parametrize("promise", BROKEN)
def test_the_broken_promise_of_a_weighting_is_named(promise: str) -> None:
    with pytest.raises(AssertionError, match=promise):
        check_weighting(BROKEN[promise])


@pytest.mark.parametrize(("name", "function"), [("ngdiff", "weigh"), ("graddrop", "combine")])
def test_a_weighting_without_its_function_cannot_be_made(name: str, function: str) -> None:
    """So a plug-in without the function is refused when it is loaded, and not by its first step."""
    with pytest.raises(ValueError, match=f"{name} needs the function '{function}'"):
        replace(WEIGHTINGS[name], weigh=None, combine=None)


OF_GRAMIAN = [weighting.name for weighting in WEIGHTINGS.values() if weighting.needs is Needs.GRAMIAN]


def three_steps(name: str, gramian: Gramian, losses: Losses) -> list[Weights]:
    state, found = None, []
    for _ in range(3):
        weights, state = step(name, gramian, state, losses)
        found.append(weights)
    return found


@pytest.mark.parametrize("name", OF_GRAMIAN)
@pytest.mark.parametrize("cosine", [-0.999, -0.6, 0.0, 0.3, 0.999])
def test_scaling_both_gradients_keeps_the_direction(name: str, cosine: float) -> None:
    def angles(scale: float) -> list[float]:
        found = three_steps(name, gramian_of(0.3 * scale, 1.7 * scale, cosine), Losses(1.0, -2.0))
        return [math.atan2(weights.forget * 1.7, weights.retain * 0.3) for weights in found]

    for scale in (2.0**-300, 2.0**-20, 2.0**20, 2.0**300):
        assert angles(scale) == pytest.approx(angles(1.0), rel=1e-12)


@pytest.mark.parametrize("name", sorted({*OF_GRAMIAN} - NOT_SYMMETRIC))
def test_exchanging_the_tasks_exchanges_the_weights(name: str) -> None:
    draw = random.Random("symmetry")
    for _ in range(30):
        rho, phi = 10.0 ** draw.uniform(-6.0, 6.0), 10.0 ** draw.uniform(-6.0, 6.0)
        cosine, one, other = draw.uniform(-0.999, 0.999), draw.uniform(0.1, 10.0), draw.uniform(0.1, 10.0)
        straight = three_steps(name, gramian_of(rho, phi, cosine), Losses(one, other))
        swapped = three_steps(name, gramian_of(phi, rho, cosine), Losses(other, one))
        for mine, theirs in zip(straight, swapped, strict=True):
            assert (mine.retain, mine.forget) == pytest.approx((theirs.forget, theirs.retain), rel=1e-9)


# The weights where the retain gradient, the forget gradient or both are zero and the other norm is 2. Then |d|, signed
# along g_r, where g_f = -2 g_r and where g_f = 2 g_r, with |g_r| = 1.
MEAN, PLAIN_SUM, NONE = (0.5, 0.5), (1.0, 1.0), (0.0, 0.0)
LIMITS = {
    "ngdiff": ((0.0, 0.5), (0.5, 0.0), NONE, 0.0, 2.0),
    "imtl-g": ((0.0, 1.0), (1.0, 0.0), NONE, 0.0, 4 / 3),
    "nash-mtl": ((0.0, 0.5), (0.5, 0.0), NONE, 0.0, math.sqrt(2.0)),
    "pcgrad": (PLAIN_SUM, PLAIN_SUM, PLAIN_SUM, 0.0, 3.0),
    "pcgrad-paper": (PLAIN_SUM, PLAIN_SUM, PLAIN_SUM, 1.0, 1.0),
    "gradvac": (PLAIN_SUM, PLAIN_SUM, PLAIN_SUM, 0.0, 3.0),
    "gradnorm": (PLAIN_SUM, PLAIN_SUM, PLAIN_SUM, -1.0, 3.0),
    "mgda": ((1.0, 0.0), (0.0, 1.0), MEAN, 0.0, 1.0),
    # The mean, -1/2 or 3/2, moved by 0.4 of its length towards the shorter gradient.
    "cagrad": (MEAN, MEAN, MEAN, -0.3, 2.1),
    "aligned-mtl": (MEAN, MEAN, MEAN, -0.5, 1.5),
    "upgrad": (MEAN, MEAN, MEAN, 0.0, 1.5),
    "dualproj": (MEAN, MEAN, MEAN, 0.0, 1.5),
    "rotograd": (PLAIN_SUM, PLAIN_SUM, PLAIN_SUM, 0.0, 3.0),  # the two span no plane to turn in
    "blur": (PLAIN_SUM, PLAIN_SUM, PLAIN_SUM, -2.0, 2.0),  # g_f.d = |g_f|^2, so d = g_f
    "rotograd-scale": (PLAIN_SUM, PLAIN_SUM, PLAIN_SUM, 0.0, 3.0),  # at the first step both have the mean length, 3/2
}


@pytest.mark.parametrize("name", OF_GRAMIAN)
def test_zero_and_parallel_gradients_give_the_documented_weights(name: str) -> None:
    *at_zero, opposed, aligned = LIMITS[name]
    for (rho, phi), expected in zip(((0.0, 2.0), (2.0, 0.0), (0.0, 0.0)), at_zero, strict=True):
        assert weigh(name, gramian_of(rho, phi, 0.0)) == Weights(*expected)
    for sign, length in ((-1.0, opposed), (1.0, aligned)):
        weights = weigh(name, gramian_of(1.0, 2.0, sign))
        assert weights.retain + 2.0 * sign * weights.forget == pytest.approx(length, abs=1e-12)


@pytest.mark.parametrize(
    ("weights", "c", "unit"),
    [
        (Weights(30.0, 10.0), 0.75, Weights(0.75, 0.25)),
        (Weights(-1.5, 1.0), 3.0, Weights(-1.5, 1.0)),  # a negative sum would reverse the direction
        (Weights(0.0, 0.0), math.nan, Weights(0.0, 0.0)),
        (Weights(-1.0, 1.0), math.nan, Weights(-1.0, 1.0)),
    ],
)
def test_c_is_the_retain_weights_share_and_unit_weights_sum_to_one(weights: Weights, c: float, unit: Weights) -> None:
    assert weights.c == pytest.approx(c, abs=0, nan_ok=True)
    assert weights.unit() == unit


@pytest.mark.parametrize(
    ("rr", "rf", "ff", "expected"),
    [
        (4.0, 3.0, 9.0, -0.5),
        (4.0, -6.0000000001, 9.0, 1.0),  # beyond 1 by rounding
        (0.0, 1e-170, 1.0, 0.0),  # the squared norm has underflown
        (1e-300, -5e-301, 1e-300, 0.5),
    ],
)
def test_k_is_the_cosine_between_the_retain_gradient_and_the_negated_forget_gradient(
    rr: float, rf: float, ff: float, expected: float
) -> None:
    assert Gramian(rr, rf, ff).k == pytest.approx(expected, abs=1e-15)
