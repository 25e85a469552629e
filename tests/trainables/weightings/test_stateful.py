"""The methods that remember: RLW's draws, GradVac's similarity, GradNorm's weights, GRU's average, the dual weight."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.optimize import nnls
from scipy.stats import kstest

from tests.trainables.weightings.gramians import Vector, gramian_of, step
from trainables.weightings import NO_GRAMIAN, WEIGHTINGS, Gramian, Losses, State, Weights
from trainables.weightings.gradnorm import slopes


def random_weights(seed: int, count: int) -> list[Weights]:
    state, drawn = WEIGHTINGS["rlw"].init(seed), []
    for _ in range(count):
        weights, state = step("rlw", NO_GRAMIAN, state)
        drawn.append(weights)
    return drawn


def test_rlw_weights_are_the_softmax_of_two_standard_normal_draws() -> None:
    """The logit of a softmax weight is the difference of the draws: normal, of variance 2."""
    assert random_weights(seed=4, count=1) != random_weights(seed=3, count=1)
    drawn = random_weights(seed=3, count=2000)
    logits = [math.log(w.retain / w.forget) / math.sqrt(2.0) for w in drawn]
    assert kstest(logits, "norm").pvalue > 0.01
    assert all(w.retain + w.forget == pytest.approx(1.0, abs=1e-15) for w in drawn)


def last_state(name: str, *gramians: Gramian, **options: float) -> State:
    state: State | None = None
    for gramian in gramians:
        _, state = step(name, gramian, state, **options)
    assert state is not None
    return state


def test_pcgrad_paper_counts_steps_with_a_negative_weight_and_steps_that_raise_the_loss_they_should_lower() -> None:
    """k = -0.5, rho = 1, phi = 5: c = 3. With k = 0.9, rho = 10, phi = 1: ``g_f.d = 0.19 - 9`` at positive weights."""
    sound, negative, raising = gramian_of(1.0, 1.0, -0.5), gramian_of(1.0, 5.0, 0.5), gramian_of(10.0, 1.0, -0.9)
    assert step("pcgrad-paper", negative) == (Weights(-1.5, 1.0), {"violations": 1})
    assert last_state("pcgrad-paper", raising) == {"violations": 1}
    zeros = gramian_of(0.0, 0.0, 0.0), gramian_of(1.0, 0.0, 0.0)
    assert last_state("pcgrad-paper", sound, negative, sound, raising, *zeros) == {"violations": 2}


@pytest.mark.parametrize(("beta", "expected"), [(0.25, 0.275), (0.0, 0.4)])
def test_gradvac_follows_the_similarity_from_its_target_and_a_zero_gradient_has_none(
    beta: float, expected: float
) -> None:
    seen = gramian_of(2.0, 0.5, 0.8), gramian_of(2.0, 0.5, -0.4), gramian_of(1.0, 0.0, 0.0)
    assert last_state("gradvac", *seen, ema_beta=beta, target=0.4) == {"similarity": pytest.approx(expected)}


@pytest.mark.parametrize("similarity", [1.0, 1.0 - 1e-14])
@pytest.mark.parametrize("cosine", [1.0 - 1e-15, 0.0, -1.0])
def test_gradvac_bounds_the_correction_of_gradients_that_were_always_equal(similarity: float, cosine: float) -> None:
    weights, _ = step("gradvac", gramian_of(1.0, 1.0, cosine), {"similarity": similarity})
    assert 1.0 <= weights.retain < 1e6


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.5])
@pytest.mark.parametrize("ratios", [(1.0, 1.0), (0.3, 0.9), (0.9, 0.3)])
@pytest.mark.parametrize("weights", [(1.0, 1.0), (0.4, 1.6), (1.9, 0.1)])
def test_gradnorm_slopes_are_those_of_autograd_on_its_loss(
    weights: tuple[float, float], ratios: tuple[float, float], alpha: float
) -> None:
    """``|grad(w_i L_i)|`` written out with the graph of each gradient norm, as the paper has it."""
    theta = torch.tensor([0.7, -1.3, 0.4], dtype=torch.float64, requires_grad=True)
    losses = ((theta**2).sum(), (theta.sin() * torch.tensor([1.0, 5.0, -2.0], dtype=torch.float64)).sum())
    w = torch.tensor(weights, dtype=torch.float64, requires_grad=True)
    norms = torch.stack(
        [torch.autograd.grad(w[i] * loss, theta, create_graph=True)[0].norm() for i, loss in enumerate(losses)]
    )
    rates = torch.tensor(ratios, dtype=torch.float64)
    target = (norms.mean() * (rates / rates.mean()) ** alpha).detach()
    (expected,) = torch.autograd.grad((norms - target).abs().sum(), w)
    plain = [float(torch.autograd.grad(loss, theta, retain_graph=True)[0].norm()) for loss in losses]
    assert slopes(weights, (plain[0], plain[1]), ratios, alpha) == pytest.approx(expected.tolist(), rel=1e-12)


def gradnorm_run(steps: int, rho: float, phi: float, losses: tuple[Losses, Losses], **options: float) -> Weights:
    """The weights after ``steps`` steps at fixed gradients; the losses are the first pair once, then the second."""
    state: State | None = None
    weights = Weights(math.nan, math.nan)
    for number in range(steps):
        weights, state = step("gradnorm", gramian_of(rho, phi, 0.1), state, losses[min(number, 1)], **options)
    return weights


def test_gradnorm_gives_more_weight_to_the_task_that_trains_slower() -> None:
    slow_forget = gradnorm_run(200, 1.0, 1.0, (Losses(2.0, 2.0), Losses(1.0, 1.9)))
    assert slow_forget.forget > 1.1 > slow_forget.retain
    slow_retain = gradnorm_run(200, 1.0, 1.0, (Losses(2.0, 2.0), Losses(1.9, 1.0)))
    assert slow_retain.retain > 1.1 > slow_retain.forget
    # ``l_f = -L_F`` from -2 to -20 is fast training, so the weight of a maximised forget loss falls as it grows.
    forgotten = gradnorm_run(200, 1.0, 1.0, (Losses(2.0, -2.0), Losses(2.0, -20.0)))
    assert forgotten.forget < 0.9 < forgotten.retain
    # Under wga ``-p^beta CE`` of a forgotten token is near 0 again, which is no reason for more weight.
    saturated = gradnorm_run(200, 1.0, 1.0, (Losses(2.0, -0.1), Losses(2.0, -1e-4)))
    assert saturated.forget == pytest.approx(1.0)


def test_gradnorm_starts_from_the_first_loss_that_is_not_zero() -> None:
    state: State | None = None
    for losses in (Losses(0.0, -1.0), Losses(0.5, -2.0), Losses(0.2, -3.0)):
        _, state = step("gradnorm", gramian_of(1.0, 1.0, 0.0), state, losses)
    assert state is not None
    assert (state["first_r"], state["first_f"]) == (0.5, -1.0)


def test_gradnorm_uses_the_weights_from_before_the_update_and_one_that_reached_zero_grows_again() -> None:
    weights, state = step("gradnorm", gramian_of(5.0, 1.0, 0.0))
    assert weights == Weights(1.0, 1.0)
    assert state["w_r"] < 1.0 < state["w_f"]
    at_zero = {"w_r": 0.0, "w_f": 2.0, "first_r": 1.0, "first_f": 1.0}
    _, state = step("gradnorm", gramian_of(1.0, 1.0, 0.0), at_zero, Losses(1.0, 1.0))
    assert state["w_r"] > 0.0


def gru_directions(pairs: list[tuple[Vector, Vector]], **options: float) -> list[Vector]:
    """The directions of consecutive steps; the first two of five elements are one parameter."""
    gru, state, found = WEIGHTINGS["gru"], WEIGHTINGS["gru"].init(0), []
    assert gru.combine is not None
    for pair in pairs:
        retain, forget = ([torch.tensor(g[:2]), torch.tensor(g[2:])] for g in pair)
        direction, state = gru.combine(
            retain, forget, state, {"ema_beta": 0.8, "floor": -1.0, "retain_weight": 0.0} | options
        )
        found.append(torch.cat([part for part in direction if part is not None]).numpy())
    return found


@pytest.mark.parametrize("beta", [0.3, 0.8, 1.0])
def test_gru_is_the_nearest_direction_that_does_not_oppose_the_average_of_the_retain_gradients(beta: float) -> None:
    """``min |d - g_f|`` under ``d.m >= 0`` by non-negative least squares: ``d = g_f + t m`` with ``t >= 0``."""
    draws = np.random.default_rng(3)
    pairs = [(draws.normal(size=5), draws.normal(size=5)) for _ in range(30)]
    average, conflicts = np.zeros(5), 0
    with_retain = gru_directions(pairs, ema_beta=beta, retain_weight=0.5)
    for (g_r, g_f), d, d_retain in zip(pairs, gru_directions(pairs, ema_beta=beta), with_retain, strict=True):
        average = beta * g_r + (1.0 - beta) * average
        (t,), _ = nnls(average[:, None], -g_f)
        np.testing.assert_allclose(d, g_f + t * average, rtol=0, atol=1e-12)
        np.testing.assert_allclose(d_retain, d + 0.5 * g_r, rtol=0, atol=1e-12)
        conflicts += t > 0
    assert 5 < conflicts < 25


@pytest.mark.parametrize(("cosine", "left"), [(0.5, 0.5), (-0.2, 0.0), (-0.4, 0.0), (-0.9, -0.5)])
def test_gru_removes_no_more_of_a_conflict_than_its_floor(cosine: float, left: float) -> None:
    g_r, g_f = np.array([2.0, 0, 0, 0, 0]), np.array([cosine, math.sqrt(1 - cosine**2), 0, 0, 0])
    (d,) = gru_directions([(g_r, g_f)], floor=-0.4)
    assert d == pytest.approx([left, g_f[1], 0, 0, 0])


def test_gru_treats_a_missing_gradient_as_zero_and_remembers_the_average() -> None:
    combine = WEIGHTINGS["gru"].combine
    assert combine is not None
    g = torch.tensor([1.0, -2.0])
    options = {"ema_beta": 0.5, "floor": -1.0, "retain_weight": 0.0}
    first, state = combine([g, None, None, g], [None, g, None, -g], {}, options)
    assert [None if part is None else part.tolist() for part in first] == [[0.5, -1.0], [1.0, -2.0], None, [-0.5, 1.0]]
    _, state = combine([None, None, None, g], [g, g, None, g], state, options)
    assert [None if part is None else part.tolist() for part in state["average"]] == [
        [0.25, -0.5], None, None, [0.75, -1.5]
    ]  # fmt: skip


def test_dual_is_projected_gradient_ascent_on_the_lagrangian_after_its_warm_up() -> None:
    """The slope of ``l_f + u (l_r - limit)`` in ``u``, by autograd; the step is projected on ``u >= 0``."""
    state: State | None = None
    expected, found = torch.tensor(2.0, dtype=torch.float64), []
    for number, retain in enumerate([9.0, 0.4, 0.1, 0.1, 0.1, 3.0, 0.5]):
        weights, state = step(
            "dual", NO_GRAMIAN, state, Losses(retain, -5.0), start=2.0, retain_limit=0.5, dual_lr=3.0, warmup=1
        )
        assert weights == Weights(pytest.approx(float(expected)), 1.0)
        found.append(weights.retain)
        if number >= 1:
            u = expected.clone().requires_grad_()
            (slope,) = torch.autograd.grad(-5.0 + u * (retain - 0.5), u)
            expected = (expected + 3.0 * slope).clamp(min=0.0)
    assert found == pytest.approx([2.0, 2.0, 1.7, 0.5, 0.0, 0.0, 7.5])
