"""RotoGrad's scaling stage: equal lengths, the paper's C, NGDiff's direction."""

from __future__ import annotations

import pytest

from trainables.weightings import WEIGHTINGS, Gramian, Losses, Weights

LOSSES = Losses(1.0, -1.0)
ROTOGRAD = WEIGHTINGS["rotograd-scale"]


def test_both_gradients_get_the_length_the_paper_gives_and_ngdiffs_direction() -> None:
    _, state = ROTOGRAD.weigh(LOSSES, Gramian(4.0, 1.0, 100.0), ROTOGRAD.init(0), {})
    gramian = Gramian(1.0, -2.0, 400.0)  # the norms 2 and 10 have become 1 and 20
    weights, _ = ROTOGRAD.weigh(LOSSES, gramian, state, {})
    alpha_r, alpha_f = 0.5 / 2.5, 2.0 / 2.5
    length = alpha_r * 1.0 + alpha_f * 20.0
    assert weights.retain * 1.0 == pytest.approx(length, rel=1e-14)
    assert weights.forget * 20.0 == pytest.approx(length, rel=1e-14)
    assert weights.c == pytest.approx(WEIGHTINGS["ngdiff"].weigh(LOSSES, gramian, {}, {})[0].c, rel=1e-14)


@pytest.mark.parametrize("gramian", [Gramian(0.0, 0.0, 4.0), Gramian(4.0, 0.0, 0.0), Gramian(0.0, 0.0, 0.0)])
def test_a_zero_gradient_leaves_the_sum_and_no_first_norm(gramian: Gramian) -> None:
    weights, state = ROTOGRAD.weigh(LOSSES, gramian, ROTOGRAD.init(0), {})
    assert weights == Weights(1.0, 1.0)
    assert 0.0 not in state.values()


@pytest.mark.parametrize("exponent", [-6, 0, 6])
def test_the_weights_do_not_change_when_all_gradients_are_rescaled(exponent: int) -> None:
    s = 10.0 ** (2 * exponent)
    state = ROTOGRAD.init(0)
    for rr, rf, ff in ((4.0, 1.0, 9.0), (1.0, -0.5, 16.0)):
        weights, state = ROTOGRAD.weigh(LOSSES, Gramian(s * rr, s * rf, s * ff), state, {})
    assert weights.retain == pytest.approx((0.5 / (0.5 + 4 / 3)) + (4 / 3) / (0.5 + 4 / 3) * 4.0, rel=1e-12)
