"""The value types: what c_t, the unit scale and the cosine of conflict mean."""

from __future__ import annotations

import math

import pytest

from trainables.weightings import WEIGHTINGS, Gramian, Weights


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
        (4.0, -6.0, 9.0, 1.0),
        (4.0, 6.0, 9.0, -1.0),
        (4.0, 0.0, 9.0, 0.0),
        (4.0, 3.0, 9.0, -0.5),
        (4.0, -6.0000000001, 9.0, 1.0),
        (0.0, 0.0, 9.0, 0.0),
        (0.0, 1e-170, 1.0, 0.0),
        (1e-300, -5e-301, 1e-300, 0.5),
        (1.0, math.nan, 1.0, math.nan),
    ],
    ids=["opposed", "aligned", "orthogonal", "acute", "beyond 1 by rounding", "zero", "underflown", "tiny", "nan"],
)
def test_k_is_the_cosine_between_the_retain_gradient_and_the_negated_forget_gradient(
    rr: float, rf: float, ff: float, expected: float
) -> None:
    assert Gramian(rr, rf, ff).k == pytest.approx(expected, abs=1e-15, nan_ok=True)


def test_the_registry_lists_every_method_under_its_own_name_in_order() -> None:
    expected = """gd ga gdiff lossnorm rlw ngdiff imtl-g pcgrad pcgrad-paper mgda cagrad gradvac gradnorm nash-mtl
        aligned-mtl upgrad dualproj graddrop rotograd rotograd-scale"""
    assert " ".join(WEIGHTINGS) == " ".join(expected.split())
    assert all(weighting.name == name for name, weighting in WEIGHTINGS.items())
