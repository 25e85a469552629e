"""Every weighting passes the suite, which names a broken promise; zero and parallel gradients have known weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.trainables.weightings.gramians import gramian_of, weigh
from trainables.testing.weightings import check_weighting
from trainables.weightings import WEIGHTINGS, Gramian, Losses, Needs, Weighting, Weights

MAY_BE_NEGATIVE = {"aligned-mtl", "pcgrad-paper"}
NOT_SYMMETRIC = {"pcgrad-paper", "rotograd"}


@pytest.mark.parametrize("weighting", WEIGHTINGS.values(), ids=list(WEIGHTINGS))
def test_every_weighting_passes_the_suite(weighting: Weighting) -> None:
    check_weighting(
        weighting,
        non_negative=weighting.name not in MAY_BE_NEGATIVE,
        symmetric=weighting.name not in NOT_SYMMETRIC,
    )


def weighing(rule: Callable[[Losses, Gramian, dict[str, float]], tuple[float, float]]) -> Any:
    """``weigh`` of a method that may change its state in place."""

    def weigh(losses: Losses, gramian: Gramian | None, state: Any, options: Mapping[str, float]) -> tuple[Weights, Any]:
        if gramian is None:
            raise ValueError("this weighting needs the Gramian of the two gradients, got None")
        return Weights(*rule(losses, gramian, state)), state

    return weigh


def counting(losses: Losses, gramian: Gramian, state: dict[str, float]) -> tuple[float, float]:
    state["step"] = state.get("step", 0) + 1
    return 1.0, 1.0


SOUND = WEIGHTINGS["ngdiff"]
BROKEN = {
    "may be negative": replace(SOUND, weigh=weighing(lambda losses, g, state: (-1.0, 1.0))),
    "must be finite": replace(SOUND, weigh=weighing(lambda losses, g, state: (g.rr * g.rr, 1.0))),
    "NaN became": replace(SOUND, weigh=weighing(lambda losses, g, state: (1.0 if g.rr > 1.0 else 0.5, 1.0))),
    "changes the direction": replace(
        SOUND, weigh=weighing(lambda losses, g, state: (min(g.rho, 1.0) if g.rho == g.rho else g.rho, 1.0))
    ),
    "exchanging the tasks": replace(SOUND, weigh=weighing(lambda losses, g, state: (2.0, 1.0))),
    "state or the options": replace(SOUND, weigh=weighing(counting)),
    "needs the Gramian": replace(WEIGHTINGS["gdiff"], needs=Needs.GRAMIAN),
    "default or bound": replace(WEIGHTINGS["gdiff"], options=(replace(WEIGHTINGS["gdiff"].options[0], default=2.0),)),
    "year": replace(SOUND, citation="a friend"),
    "formula": replace(SOUND, formula=""),
}


@pytest.mark.parametrize("promise", BROKEN)
def test_the_broken_promise_of_a_weighting_is_named(promise: str) -> None:
    with pytest.raises(AssertionError, match=promise):
        check_weighting(BROKEN[promise], symmetric=True)


def test_a_method_on_the_gradients_with_other_draws_each_time_is_caught() -> None:
    graddrop = WEIGHTINGS["graddrop"]
    drawn = iter(range(100))

    def combine(retain: Any, forget: Any, state: Any, options: Any) -> Any:
        assert graddrop.combine is not None
        return graddrop.combine(retain, forget, {**state, "seed": next(drawn)}, options)[0], state

    with pytest.raises(AssertionError, match="different directions"):
        check_weighting(replace(graddrop, combine=combine))


every_gramian = pytest.mark.parametrize(
    "weighting", [w for w in WEIGHTINGS.values() if w.needs is Needs.GRAMIAN], ids=lambda w: str(w.name)
)


# What each method returns where a gradient is zero: (retain zero), (forget zero), (both zero), the other norm being 2.
AT_ZERO = {
    "ngdiff": ((0.0, 0.5), (0.5, 0.0), (0.0, 0.0)),
    "imtl-g": ((0.0, 1.0), (1.0, 0.0), (0.0, 0.0)),
    "nash-mtl": ((0.0, 0.5), (0.5, 0.0), (0.0, 0.0)),
    "pcgrad": ((1.0, 1.0), (1.0, 1.0), (1.0, 1.0)),
    "pcgrad-paper": ((1.0, 1.0), (1.0, 1.0), (1.0, 1.0)),
    "gradvac": ((1.0, 1.0), (1.0, 1.0), (1.0, 1.0)),
    "gradnorm": ((1.0, 1.0), (1.0, 1.0), (1.0, 1.0)),
    "mgda": ((1.0, 0.0), (0.0, 1.0), (0.5, 0.5)),
    "cagrad": ((0.5, 0.5), (0.5, 0.5), (0.5, 0.5)),
    "aligned-mtl": ((0.5, 0.5), (0.5, 0.5), (0.5, 0.5)),
    "upgrad": ((0.5, 0.5), (0.5, 0.5), (0.5, 0.5)),
    "dualproj": ((0.5, 0.5), (0.5, 0.5), (0.5, 0.5)),
    "rotograd": ((1.0, 1.0), (1.0, 1.0), (1.0, 1.0)),
    "rotograd-scale": ((1.0, 1.0), (1.0, 1.0), (1.0, 1.0)),
}


@every_gramian
@pytest.mark.parametrize(("case", "rho", "phi"), [(0, 0.0, 2.0), (1, 2.0, 0.0), (2, 0.0, 0.0)])
def test_zero_gradients_give_the_documented_weights(weighting: Weighting, case: int, rho: float, phi: float) -> None:
    weights = weigh(weighting.name, gramian_of(rho, phi, 0.0))
    assert (weights.retain, weights.forget) == AT_ZERO[weighting.name][case]


# |d| of each method, signed along g_r, where g_f = -2 g_r and where g_f = +2 g_r, with |g_r| = 1.
ALONG_A_LINE = {
    "ngdiff": (0.0, 2.0),
    "imtl-g": (0.0, 4 / 3),
    "nash-mtl": (0.0, math.sqrt(2.0)),
    "pcgrad": (0.0, 3.0),
    "pcgrad-paper": (1.0, 1.0),
    "gradvac": (0.0, 3.0),
    "gradnorm": (-1.0, 3.0),
    "mgda": (0.0, 1.0),
    "cagrad": (-0.3, 2.1),  # the mean, -1/2 or 3/2, moved by 0.4 of its length towards the shorter gradient
    "aligned-mtl": (-0.5, 1.5),
    "upgrad": (0.0, 1.5),
    "dualproj": (0.0, 1.5),
    "rotograd": (0.0, 3.0),  # the two span no plane to turn in
    "rotograd-scale": (0.0, 3.0),  # at the first step both have the mean length, 3/2
}


@every_gramian
@pytest.mark.parametrize(("case", "sign"), [(0, -1.0), (1, 1.0)], ids=["opposed", "aligned"])
def test_parallel_gradients_give_the_documented_direction(weighting: Weighting, case: int, sign: float) -> None:
    weights = weigh(weighting.name, gramian_of(1.0, 2.0, sign))
    expected = ALONG_A_LINE[weighting.name][case]
    assert weights.retain + 2.0 * sign * weights.forget == pytest.approx(expected, abs=1e-12)


# The value types ------------------------------------------------------------------------------------------------------


def test_c_is_the_share_of_the_retain_weight_and_nan_if_the_weights_sum_to_zero() -> None:
    assert Weights(3.0, 1.0).c == 0.75
    assert Weights(-1.5, 1.0).c == 3.0
    assert math.isnan(Weights(0.0, 0.0).c)
    assert math.isnan(Weights(-1.0, 1.0).c)


def test_unit_weights_sum_to_one_and_keep_the_direction_or_stay_as_they_are() -> None:
    assert Weights(30.0, 10.0).unit() == Weights(0.75, 0.25)
    for weights in (Weights(0.0, 0.0), Weights(-1.5, 1.0)):  # of zero or negative sum
        assert weights.unit() == weights


@pytest.mark.parametrize(
    ("rr", "rf", "ff", "expected"),
    [
        (4.0, 3.0, 9.0, -0.5),
        (4.0, -6.0000000001, 9.0, 1.0),  # beyond 1 by rounding
        (0.0, 1e-170, 1.0, 0.0),  # the squared norm has underflown
        (1e-300, -5e-301, 1e-300, 0.5),
        (1.0, math.nan, 1.0, math.nan),
    ],
)
def test_k_is_the_cosine_between_the_retain_gradient_and_the_negated_forget_gradient(
    rr: float, rf: float, ff: float, expected: float
) -> None:
    assert Gramian(rr, rf, ff).k == pytest.approx(expected, abs=1e-15, nan_ok=True)
