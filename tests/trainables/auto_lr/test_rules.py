"""Rules of AutoLR: exact on a quadratic, and a reason for every update that keeps the rate."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainables.auto_lr.curvature import BEND, SHARE
from trainables.auto_lr.fit import Fit
from trainables.auto_lr.rules import FALLBACKS, NO_CURVATURE, NO_DESCENT, NOT_FINITE, RULES, enough_probe_batches

ETA = 0.1

rules = pytest.mark.parametrize("rule", RULES)


def parabola(slope: float, curvature: float) -> Callable[[float], Fit]:
    """Return a probe of the loss ``L0 - x G + x^2 H / 2``, with L0 = 1."""

    def loss(x: float) -> float:
        return 1.0 - x * slope + x * x * curvature / 2.0

    return lambda x: Fit(x, 1.0, loss(x), loss(-x))


def new_rate(rule: str, slope: float, curvature: float, *, delta: float = 0.02, steps: int = 1) -> float | str:
    probe = parabola(slope, curvature)
    return RULES[rule].new_rate(probe(ETA), probe, delta=delta, steps=steps)


@pytest.mark.parametrize(
    ("rule", "slope", "expected"),
    [
        ("gen", 10.0, 5.0),
        ("gen", 0.3, 0.15),
        ("gen-clip", 10.0, 0.2),
        ("gen-clip", 0.3, 0.15),
        ("gen-clip", 1e-3, 0.05),
        ("gen-official", 10.0, 0.11),
        ("gen-official", 0.3, 0.105),
        ("gen-official", 1e-3, 0.095),
        ("gen-trust", 0.3, (0.3 + math.sqrt(0.3**2 + 2 * 2.0 * 0.02)) / 2.0),
        ("gen-trust", -0.3, math.sqrt(2 * 0.02 / 2.0)),
        ("curvature", 0.3, SHARE * math.sqrt(2 * BEND / 2.0)),
    ],
)
def test_a_rule_is_exact_on_a_quadratic(rule: str, slope: float, expected: float) -> None:
    """The curvature is 2, and the current rate is 0.1."""
    assert new_rate(rule, slope, 2.0) == pytest.approx(expected, rel=1e-9)


@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_gen_trust_without_a_rise_is_the_stability_bound_and_without_a_slope_needs_only_the_curvature(
    slope: float, curvature: float
) -> None:
    assert new_rate("gen-trust", slope, curvature, delta=0.0) == pytest.approx(2.0 * slope / curvature, rel=1e-3)
    assert new_rate("gen-trust", 0.0, curvature, delta=0.02) == pytest.approx(math.sqrt(0.04 / curvature), rel=1e-3)


@given(st.floats(-10.0, 10.0), st.floats(0.1, 1e3), st.floats(1e-3, 1.0), st.integers(1, 20))
def test_after_all_steps_at_the_rate_of_gen_trust_the_parabola_is_delta_above_its_start(
    slope: float, curvature: float, delta: float, steps: int
) -> None:
    rate = new_rate("gen-trust", slope, curvature, delta=delta, steps=steps)
    assert isinstance(rate, float)
    rise = parabola(max(slope, 0.0), curvature)(steps * rate).loss_plus - 1.0
    assert rise == pytest.approx(delta, rel=1e-3, abs=1e-9)


@rules
def test_only_gen_trust_depends_on_the_number_of_steps_until_the_next_update(rule: str) -> None:
    once, often = (new_rate(rule, 0.3, 2.0, steps=steps) for steps in (1, 10))
    assert isinstance(once, float)
    assert often == pytest.approx(once / 10 if rule == "gen-trust" else once)


@rules
@pytest.mark.parametrize("losses", [(1.0, math.nan, 1.2), (1.0, math.inf, math.inf), (math.nan, 0.9, 1.2)])
def test_a_loss_that_is_not_finite_keeps_the_rate(rule: str, losses: tuple[float, float, float]) -> None:
    """The rule ``curvature`` probes other rates before it gives up."""
    reason = RULES[rule].new_rate(Fit(ETA, *losses), lambda x: Fit(x, *losses), delta=0.02, steps=10)
    assert reason == (NO_CURVATURE if rule == "curvature" else NOT_FINITE)


@rules
@pytest.mark.parametrize("curvature", [-2.0, 0.0])
def test_without_a_positive_curvature_the_rate_is_kept(rule: str, curvature: float) -> None:
    assert new_rate(rule, 1.0, curvature) == NO_CURVATURE


@rules
@pytest.mark.parametrize("slope", [-1.0, 0.0])
def test_only_the_rules_that_aim_at_the_minimum_need_a_descent(rule: str, slope: float) -> None:
    found = new_rate(rule, slope, 2.0, delta=0.02)
    assert ((found == NO_DESCENT) is rule.startswith("gen") and rule != "gen-trust") or isinstance(found, float)
    assert new_rate("gen-trust", slope, 2.0, delta=0.0) == NO_DESCENT


@rules
@given(st.tuples(*3 * [st.floats(allow_nan=True, allow_infinity=True)]))
def test_every_rate_is_positive_and_finite_and_every_other_update_has_a_known_reason(
    rule: str, losses: tuple[float, float, float]
) -> None:
    found = RULES[rule].new_rate(Fit(ETA, *losses), lambda x: Fit(x, *losses), delta=0.02, steps=10)
    assert found in FALLBACKS if isinstance(found, str) else 0.0 < found < math.inf


@pytest.mark.parametrize(("batch_size", "batches"), [(1, 8), (3, 3), (4, 2), (32, 2)])
def test_at_least_two_batches_and_eight_rows_are_probed(batch_size: int, batches: int) -> None:
    assert enough_probe_batches(batch_size) == batches
