"""The rule ``safe`` finds the same rate from any initial rate and anneals it at the end of the run."""

from __future__ import annotations

import math
import random
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trainables.auto_lr.in_run import AutoLR
from trainables.auto_lr.rule import Fit, fit_parabola
from trainables.auto_lr.rules import RULES, enough_probe_batches
from trainables.auto_lr.safe import ANNEALED, BEND, SHARE, bending_distance
from trainables.batches import EndlessBatches
from trainables.spec import TrialSpec

SAFE = RULES["safe"]


@given(st.sampled_from([1e-5, 1e-4, 1e-3, 1e-2]), st.floats(3e-4, 3e-2), st.sampled_from([-50.0, 0.0, 50.0]))
def test_the_rate_depends_neither_on_its_start_nor_on_the_slope(start: float, distance: float, slope: float) -> None:
    """Losses are rounded to 1e-7, as float32 rounds near 1."""
    fits: list[Fit] = []

    def probe(x: float) -> Fit:
        rises = (round(1.0 - slope * at + BEND * (at / distance) ** 2, 7) for at in (x, -x))
        fits.append(fit_parabola(x, 1.0, *rises))
        return fits[-1]

    proposal, memory = SAFE.propose(SAFE.init(), probe(start), probe)
    assert proposal.eta == pytest.approx(SHARE * distance, rel=1e-2)
    assert memory["settled"]
    assert len(fits) <= 6


@pytest.mark.parametrize("power", [1.2, 2.0, 3.0])
def test_on_a_loss_that_is_no_parabola_far_out_every_start_finds_the_same_distance(power: float) -> None:
    def probe(x: float) -> Fit:
        rise = (1.0 + (x / 3e-3) ** 2) ** (power / 2.0) - 1.0
        return fit_parabola(x, 1.0, 1.0 + rise, 1.0 + rise)

    exact = 3e-3 * math.sqrt((1.0 + BEND) ** (2.0 / power) - 1.0)  # the rise there is the bend
    for start in (1e-5, 1e-4, 1e-3, 1e-2, 1e-1):
        assert bending_distance(probe(start), probe) == pytest.approx(exact, rel=0.1)


@given(st.integers(0, 10**6), st.sampled_from([1e-5, 1e-3, 1e-1]))
def test_even_on_a_jagged_loss_the_distance_is_found_within_a_factor_of_four(seed: int, start: float) -> None:
    """Rises that scatter around a parabola by a factor of 4 must not make the search oscillate."""

    def bend(x: float) -> float:
        jag = random.Random(f"{seed} {x:.9e}").uniform(-1.0, 1.0)
        return BEND * (x / 4e-3) ** 2 * 4.0**jag

    def probe(x: float) -> Fit:
        return fit_parabola(x, 1.0, 1.0 + bend(x), 1.0 + bend(x))

    distance = bending_distance(probe(start), probe)
    assert distance is not None
    assert 4e-3 / 4 <= distance <= 4e-3 * 4


@pytest.mark.parametrize("size", [1e-7, math.inf])
@pytest.mark.parametrize("seed", range(20))
def test_on_a_flat_loss_noise_and_infinities_move_no_rate(seed: int, size: float) -> None:
    noise = random.Random(seed)

    def probe(x: float) -> Fit:
        return fit_parabola(x, 1.0, *(1.0 + size * noise.gauss(0.0, 1.0) for _ in range(2)))

    proposal, memory = SAFE.propose(SAFE.init(), probe(1e-3), probe)
    assert (proposal.eta, proposal.reason, memory["settled"]) == (None, "no curvature", 0)


@pytest.mark.parametrize("steps", [3, 75, 1000])
def test_the_rate_falls_at_the_end_and_not_before(steps: int) -> None:
    assert SAFE.guard is not None
    shares = [SAFE.guard.share(step, steps) for step in range(1, steps + 1)]
    assert all(share == 1.0 for share in shares[: int(steps * (1.0 - ANNEALED))])
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] == pytest.approx(min(1.0, 1.0 / (ANNEALED * steps)))


def on_a_flat_loss(**changes: Any) -> AutoLR:
    """Return AutoLR on a constant loss, with an initial rate of 0.5, in a run of 100 steps."""
    model = torch.nn.Linear(2, 2, bias=False)
    probe = lambda batches: lambda: 1.0  # noqa: E731
    losses: Any = SimpleNamespace(model=model, retain_probe=probe, forget_probe=probe, retain_loss_is_probe=False)
    spec = TrialSpec(auto_lr="on", auto_lr_probe="same", **changes)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    return AutoLR(spec, optimizer, losses, EndlessBatches([1], 1, "probe"), steps=100)


@pytest.mark.parametrize(
    ("every", "start", "due"), [(10, 1, [1, 11, 21]), (10, 5, [5, 15, 25]), (1, 3, list(range(3, 31))), (7, 30, [30])]
)
def test_the_rate_is_fitted_at_the_first_step_of_autolr_and_then_every_few_steps(
    every: int, start: int, due: list[int]
) -> None:
    auto_lr = on_a_flat_loss(auto_lr_every=every, auto_lr_start=start, auto_lr_smoothing="paper")
    assert [step for step in range(1, 31) if auto_lr.is_due(step)] == due


@pytest.mark.parametrize("every", [1, 2, 10])
def test_an_unchanged_rate_is_annealed_once(every: int) -> None:
    """On a constant loss, no update finds a rate."""
    steps, auto_lr = 100, on_a_flat_loss(auto_lr_every=every)
    optimizer = auto_lr._optimizer
    assert SAFE.guard is not None
    for step in range(1, steps + 1):
        optimizer.param_groups[0]["params"][0].grad = torch.zeros(2, 2)
        auto_lr.take_step(step, [0], [0], None)
        assert optimizer.param_groups[0]["lr"] == pytest.approx(0.5 * SAFE.guard.share(step, steps))
    assert auto_lr.counts["no_curvature"] == steps / every
    assert auto_lr.counts["clipped"] == 0


@pytest.mark.parametrize(("batch_size", "batches"), [(1, 8), (2, 4), (3, 3), (4, 2), (8, 2), (32, 2)])
def test_at_least_two_batches_and_eight_rows_are_probed(batch_size: int, batches: int) -> None:
    assert enough_probe_batches(batch_size) == batches
