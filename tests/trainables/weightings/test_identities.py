"""What the methods have in common, and what holds for any gradients."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from search_spaces.fields import defaults
from trainables.weightings import WEIGHTINGS, Gramian, Losses, Weights

Vector = NDArray[np.float64]

norms = st.one_of(st.floats(-6.0, 6.0).map(lambda exponent: 10.0**exponent), st.just(0.0))
cosines = st.one_of(st.floats(-1.0, 1.0), st.sampled_from([-1.0, 1.0]))
vectors = st.tuples(
    arrays(np.float64, 4, elements=st.floats(-1.0, 1.0).map(lambda x: x if abs(x) > 1e-6 else 0.0)),
    st.floats(-6.0, 6.0).map(lambda exponent: 10.0**exponent),
).map(lambda drawn: drawn[0] * drawn[1])


def weigh(name: str, gramian: Gramian, losses: Losses = Losses(1.0, -1.0), **options: float) -> Weights:  # noqa: B008
    weighting = WEIGHTINGS[name]
    return weighting.weigh(losses, gramian, weighting.init(0), defaults(weighting.options) | options)[0]


def gramian_of(rho: float, phi: float, cosine: float) -> Gramian:
    return Gramian(rho * rho, cosine * rho * phi, phi * phi)


def gramian_between(g_r: Vector, g_f: Vector) -> Gramian:
    return Gramian(float(g_r @ g_r), float(g_r @ g_f), float(g_f @ g_f))


@pytest.mark.parametrize("name", ["imtl-g", "nash-mtl"])
@given(rho=norms, phi=norms, cosine=cosines)
def test_ngdiff_imtl_g_and_nash_mtl_share_their_direction(name: str, rho: float, phi: float, cosine: float) -> None:
    assume(rho + phi > 0)
    gramian = gramian_of(rho, phi, cosine)
    assert weigh(name, gramian).c == pytest.approx(weigh("ngdiff", gramian).c, rel=1e-14)


@given(rho=norms, phi=norms, cosine=cosines)
def test_upgrad_is_half_of_pcgrad(rho: float, phi: float, cosine: float) -> None:
    gramian = gramian_of(rho, phi, cosine)
    half, whole = weigh("upgrad", gramian), weigh("pcgrad", gramian)
    assert (2.0 * half.retain, 2.0 * half.forget) == (whole.retain, whole.forget)


@given(rho=norms, phi=norms, cosine=cosines)
def test_gradvac_with_target_0_is_pcgrad(rho: float, phi: float, cosine: float) -> None:
    gramian = gramian_of(rho, phi, cosine)
    vaccinated, projected = weigh("gradvac", gramian, target=0.0), weigh("pcgrad", gramian)
    assert vaccinated.retain == pytest.approx(projected.retain, rel=1e-14)
    assert vaccinated.forget == pytest.approx(projected.forget, rel=1e-14)


@given(rho=norms, phi=norms, cosine=cosines)
def test_cagrad_with_no_ball_is_the_mean_gradient(rho: float, phi: float, cosine: float) -> None:
    assert weigh("cagrad", gramian_of(rho, phi, cosine), alpha=0.0) == Weights(0.5, 0.5)


@pytest.mark.parametrize("cosine", [-0.9, -0.3, 0.5])
def test_cagrad_with_a_large_ball_tends_to_mgda(cosine: float) -> None:
    gramian = gramian_of(1.0, 1.7, cosine)
    assert weigh("cagrad", gramian, alpha=1e6).c == pytest.approx(weigh("mgda", gramian).c, abs=1e-5)


@given(g_r=vectors, g_f=vectors)
def test_ngdiff_conflicts_with_neither_gradient(g_r: Vector, g_f: Vector) -> None:
    """Lemma 2 of the paper, for any two gradients."""
    weights = weigh("ngdiff", gramian_between(g_r, g_f))
    d = weights.retain * g_r + weights.forget * g_f
    assert g_r @ d >= -1e-14 * np.linalg.norm(g_r)
    assert g_f @ d >= -1e-14 * np.linalg.norm(g_f)


@pytest.mark.parametrize("name", ["pcgrad", "upgrad", "dualproj", "mgda", "imtl-g", "nash-mtl"])
@given(g_r=vectors, g_f=vectors)
def test_methods_made_for_it_conflict_with_neither_gradient(name: str, g_r: Vector, g_f: Vector) -> None:
    weights = weigh(name, gramian_between(g_r, g_f))
    contributions = abs(weights.retain) * np.linalg.norm(g_r) + abs(weights.forget) * np.linalg.norm(g_f)
    d = weights.retain * g_r + weights.forget * g_f
    for g in (g_r, g_f):
        assert g @ d >= -1e-13 * contributions * np.linalg.norm(g)


@pytest.mark.parametrize("name", ["ngdiff", "nash-mtl"])
@pytest.mark.parametrize("factor", [1e-6, 3.0, 1e6])
@given(g_r=vectors, g_f=vectors)
def test_d_does_not_change_when_either_gradient_is_rescaled(name: str, factor: float, g_r: Vector, g_f: Vector) -> None:
    assume(np.linalg.norm(g_r) > 1e-9)
    assume(np.linalg.norm(g_f) > 1e-9)
    assume(1.0 - gramian_between(g_r, g_f).k > 1e-6)  # Nash-MTL divides by its root

    def direction(x: Vector, y: Vector) -> Vector:
        weights = weigh(name, gramian_between(x, y))
        d: Vector = weights.retain * x + weights.forget * y
        return d

    d = direction(g_r, g_f)
    assert direction(factor * g_r, g_f) == pytest.approx(d, abs=1e-7)
    assert direction(g_r, factor * g_f) == pytest.approx(d, abs=1e-7)


@given(retain=st.floats(1e-6, 1e6), forget=st.floats(-1e6, -1e-6), factor=st.floats(1e-6, 1e6))
def test_lossnorm_contributes_the_same_of_a_loss_at_any_scale(retain: float, forget: float, factor: float) -> None:
    """Rescaling a loss rescales its gradient: w times the scale is what reaches d."""
    gramian = gramian_of(1.0, 1.0, 0.0)
    plain = weigh("lossnorm", gramian, Losses(retain, forget))
    scaled = weigh("lossnorm", gramian, Losses(factor * retain, forget))
    assert factor * scaled.retain == pytest.approx(plain.retain, rel=1e-12)
    assert scaled.forget == plain.forget == -1.0 / forget


def test_lossnorm_gives_a_loss_of_zero_no_weight() -> None:
    assert weigh("lossnorm", gramian_of(1.0, 1.0, 0.0), Losses(0.0, -4.0)) == Weights(0.0, 0.25)


@pytest.mark.parametrize("c", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_gdiff_has_the_share_it_is_given(c: float) -> None:
    weights = weigh("gdiff", gramian_of(1.0, 1.0, 0.0), c=c)
    assert weights.c == c
    assert weights.retain + weights.forget == 1.0


def test_the_ends_of_gdiff_are_gd_and_ga() -> None:
    gramian = gramian_of(1.0, 1.0, 0.0)
    assert weigh("gdiff", gramian, c=1.0) == weigh("gd", gramian) == Weights(1.0, 0.0)
    assert weigh("gdiff", gramian, c=0.0) == weigh("ga", gramian) == Weights(0.0, 1.0)


def test_without_conflict_the_projecting_methods_leave_the_sum_or_the_mean() -> None:
    gramian = gramian_of(2.0, 3.0, 0.4)
    assert weigh("pcgrad", gramian) == Weights(1.0, 1.0)
    assert weigh("upgrad", gramian) == weigh("dualproj", gramian) == Weights(0.5, 0.5)


def test_nash_mtl_has_a_step_of_constant_length() -> None:
    for cosine in (-0.9, 0.0, 0.9):
        gramian = gramian_of(1e-3, 50.0, cosine)
        w = weigh("nash-mtl", gramian)
        squared = w.retain**2 * gramian.rr + 2.0 * w.retain * w.forget * gramian.rf + w.forget**2 * gramian.ff
        assert math.sqrt(squared) == pytest.approx(math.sqrt(2.0), rel=1e-12)
