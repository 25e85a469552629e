"""What every weighting promises, checked over the registry."""

from __future__ import annotations

import copy
import json
import math
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search_spaces.fields import defaults
from trainables.weightings import WEIGHTINGS, Gramian, Losses, Needs, State, Weighting, Weights

MAY_BE_NEGATIVE = {"aligned-mtl", "pcgrad-paper"}
SYMMETRIC = [w for w in WEIGHTINGS.values() if w.needs is Needs.GRAMIAN and w.name not in ("pcgrad-paper", "rotograd")]

WITH_WEIGHTS = {name: item for name, item in WEIGHTINGS.items() if item.needs is not Needs.GRADIENTS}
every = pytest.mark.parametrize("weighting", WITH_WEIGHTS.values(), ids=list(WITH_WEIGHTS))
every_gramian = pytest.mark.parametrize(
    "weighting", [w for w in WEIGHTINGS.values() if w.needs is Needs.GRAMIAN], ids=lambda w: str(w.name)
)

norms = st.one_of(
    st.floats(-6.0, 6.0).map(lambda exponent: 10.0**exponent), st.sampled_from([0.0, 1e-150, 1e-6, 1e6, 1e150])
)
cosines = st.one_of(st.floats(-1.0, 1.0), st.sampled_from([-1.0, 1.0, 1.0 - 1e-16, 1.0 - 1e-12, 1e-12 - 1.0]))
loss_values = st.one_of(st.floats(-100.0, 100.0), st.sampled_from([0.0, 1e-310, -1e-30, 1e30]))
losses_ = st.builds(Losses, loss_values, loss_values)


def gramian_of(rho: float, phi: float, cosine: float) -> Gramian:
    return Gramian(rho * rho, cosine * rho * phi, phi * phi)


gramians = st.builds(gramian_of, norms, norms, cosines)
steps = st.lists(st.tuples(losses_, gramians), min_size=1, max_size=4)


def run(weighting: Weighting, taken: list[tuple[Losses, Gramian]], state: State | None = None) -> list[Weights]:
    """The weights of consecutive steps, with default options."""
    state = weighting.init(7) if state is None else state
    weights = []
    for losses, gramian in taken:
        step, state = weighting.weigh(losses, gramian, state, defaults(weighting.options))
        weights.append(step)
    return weights


@every
@given(taken=steps)
def test_weights_are_finite_and_non_negative_at_any_scale_angle_and_history(
    weighting: Weighting, taken: list[tuple[Losses, Gramian]]
) -> None:
    for weights in run(weighting, taken):
        assert math.isfinite(weights.retain)
        assert math.isfinite(weights.forget)
        assert weighting.name in MAY_BE_NEGATIVE or (weights.retain >= 0 and weights.forget >= 0)


@every
@given(losses=losses_, gramian=gramians)
@settings(max_examples=30)
def test_weighing_is_a_pure_function(weighting: Weighting, losses: Losses, gramian: Gramian) -> None:
    state, options = weighting.init(7), defaults(weighting.options)
    before = copy.deepcopy((state, options))
    frozen = MappingProxyType(dict(state)), MappingProxyType(dict(options))
    first = weighting.weigh(losses, gramian, *frozen)
    second = weighting.weigh(losses, gramian, state, options)
    assert first == second
    assert (state, options) == before


@every
@given(before=steps, after=steps)
@settings(max_examples=30)
def test_a_run_resumed_from_its_state_as_json_goes_on_as_if_uninterrupted(
    weighting: Weighting, before: list[tuple[Losses, Gramian]], after: list[tuple[Losses, Gramian]]
) -> None:
    state = weighting.init(7)
    for losses, gramian in before:
        _, state = weighting.weigh(losses, gramian, state, defaults(weighting.options))
    restored = json.loads(json.dumps(dict(state), allow_nan=False))
    assert run(weighting, after, restored) == run(weighting, before + after)[len(before) :]


@every
def test_a_nan_is_never_turned_into_a_number(weighting: Weighting) -> None:
    nan = math.nan
    weights, state = weighting.weigh(
        Losses(nan, nan), Gramian(nan, nan, nan), weighting.init(7), defaults(weighting.options)
    )
    ignores_its_inputs = weighting.name in {"gd", "ga", "gdiff", "rlw"}
    assert ignores_its_inputs or any(math.isnan(x) for x in (weights.retain, weights.forget, *state.values()))


@every
def test_the_gramian_is_demanded_exactly_by_the_methods_that_declare_it(weighting: Weighting) -> None:
    arguments = Losses(1.0, -1.0), None, weighting.init(7), defaults(weighting.options)
    if weighting.needs is Needs.GRAMIAN:
        with pytest.raises(ValueError, match="needs the Gramian"):
            weighting.weigh(*arguments)
    else:
        weights, _ = weighting.weigh(*arguments)
        assert weights.retain + weights.forget > 0


@every
def test_options_accept_their_default_and_bounds_and_give_finite_weights_there(weighting: Weighting) -> None:
    for option in weighting.options:
        assert option.problem(option.default) is None
        assert option.problem(option.low - 1.0) is not None
        for value in (option.least + 1e-9 if option.above > option.low else option.low, min(option.high, 1e3)):
            assert option.problem(value) is None
            state: State = weighting.init(7)
            for cosine in (0.9, -1.0, 1.0, -0.9):
                weights, state = weighting.weigh(
                    Losses(1.0, -1.0),
                    gramian_of(2.0, 3.0, cosine),
                    state,
                    defaults(weighting.options) | {option.name: value},
                )
                assert math.isfinite(weights.retain)
                assert math.isfinite(weights.forget)


@every
def test_a_listing_can_show_the_method_in_one_line(weighting: Weighting) -> None:
    assert 0 < len(weighting.formula) < 100
    assert "\n" not in weighting.formula + weighting.citation
    assert "20" in weighting.citation


def direction(weights: Weights, gramian: Gramian) -> tuple[float, float]:
    """The share of each gradient in d, as a unit vector: what stays when d is rescaled."""
    retain, forget = weights.retain * gramian.rho, weights.forget * gramian.phi
    length = math.hypot(retain, forget)
    return retain / length, forget / length


@every_gramian
@pytest.mark.parametrize("cosine", [-0.999, -0.6, 0.0, 0.3, 0.999])
@pytest.mark.parametrize("scale", [2.0**-300, 2.0**-20, 2.0**20, 2.0**300], ids=["1e-90", "1e-6", "1e6", "1e90"])
def test_scaling_both_gradients_alike_never_changes_the_direction(
    weighting: Weighting, cosine: float, scale: float
) -> None:
    losses = Losses(1.0, -2.0)
    small, large = gramian_of(0.3, 1.7, cosine), gramian_of(0.3 * scale, 1.7 * scale, cosine)
    for before, after in zip(run(weighting, [(losses, small)] * 3), run(weighting, [(losses, large)] * 3), strict=True):
        assert direction(after, large) == pytest.approx(direction(before, small), rel=1e-12)


@pytest.mark.parametrize("weighting", SYMMETRIC, ids=lambda w: str(w.name))
@given(
    rho=st.floats(-6.0, 6.0).map(lambda e: 10.0**e),
    phi=st.floats(-6.0, 6.0).map(lambda e: 10.0**e),
    cosine=st.floats(-0.999, 0.999),
    losses=st.builds(Losses, st.floats(0.1, 10.0), st.floats(0.1, 10.0)),
)
@settings(max_examples=30)
def test_exchanging_the_tasks_exchanges_the_weights(
    weighting: Weighting, rho: float, phi: float, cosine: float, losses: Losses
) -> None:
    taken = [(Losses(1.0, 1.0), gramian_of(rho, phi, cosine)), (losses, gramian_of(rho, phi, cosine))]
    swapped = [(Losses(b.forget, b.retain), gramian_of(phi, rho, cosine)) for b, _ in taken]
    for one, other in zip(run(weighting, taken), run(weighting, swapped), strict=True):
        assert (other.forget, other.retain) == pytest.approx((one.retain, one.forget), rel=1e-9)


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
    (weights,) = run(weighting, [(Losses(1.0, -1.0), gramian_of(rho, phi, 0.0))])
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
    (weights,) = run(weighting, [(Losses(1.0, -1.0), Gramian(1.0, 2.0 * sign, 4.0))])
    expected = ALONG_A_LINE[weighting.name][case]
    assert weights.retain + 2.0 * sign * weights.forget == pytest.approx(expected, abs=1e-12)
