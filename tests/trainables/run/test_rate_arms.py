"""The arms of the experiment on learning-rate rules train on the same examples and differ in the named settings."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import rate_arms
from rate_arms import accept, double, prepare, settings_of, significant

from tests.trainables.conftest import MakeSpec
from trainables.auto_lr.fit import Fit
from trainables.auto_lr.rules import gen_trust
from trainables.run.run import UnlearningRun
from trainables.run.workspace import Workspace

SLOPED = Fit(0.1, 1.0, 0.95, 1.15)  # G = 1, H = 10: the minimum is at the rate 0.1


def parabola(x: float) -> Fit:
    return Fit(x, 1.0, 1.0 - x + 5.0 * x**2, 1.0 + x + 5.0 * x**2)


def steep(x: float) -> Fit:
    """The loss rises by 100 x^2, so it is far above the fitted parabola."""
    return Fit(x, 1.0, 1.0 + 100.0 * x**2, 1.0)


def test_the_words_of_an_arm_are_settings():
    assert settings_of("off+decay") == {"auto_lr": "off", "lr_decay": "linear"}
    assert settings_of("gen-trust+delta=0.005+batches=8+double+interpolate") == {
        "auto_lr": "gen-trust",
        "auto_lr_delta": 0.005,
        "auto_lr_probe": "fresh",
        "auto_lr_probe_batches": 8,
        "interpolate": "on",
    }
    with pytest.raises(ValueError, match=r"unknown word 'annealed': expected decay"):
        settings_of("gen+annealed")


def test_double_limits_the_rate_to_twice_the_current_rate():
    flat = replace(SLOPED, loss_plus=0.901, loss_minus=1.101)  # H = 0.2, so the bound is far away
    assert gen_trust(flat, parabola, 0.0) == pytest.approx(10.0)
    assert double(gen_trust, 1)(flat, parabola, 0.0) == pytest.approx(0.2)
    assert double(gen_trust, 10)(flat, parabola, 0.0) == pytest.approx(10 * 0.2)
    assert double(gen_trust, 10)(SLOPED, parabola, 0.0) == pytest.approx(0.2)


def test_accept_keeps_a_rate_whose_measured_rise_agrees_and_halves_other_rates():
    assert accept(gen_trust)(SLOPED, parabola, 0.0) == pytest.approx(0.2)
    # 100 x^2 is at most 0.01 for a rate of at most 0.01; four halvings of 0.2 are 0.0125.
    assert accept(gen_trust)(SLOPED, steep, 0.0) == pytest.approx(0.2 / 16)
    assert accept(gen_trust)(SLOPED, steep, 0.02) == pytest.approx(gen_trust(SLOPED, steep, 0.02) / 16)
    assert accept(gen_trust)(replace(SLOPED, loss_plus=math.nan), steep, 0.0) == "not finite"


def test_delta_bounds_the_rise_of_one_step_only_in_the_variant_of_this_name(
    half_scored: Workspace, make_spec: MakeSpec
) -> None:
    rates = []
    for arm in ("gen-trust+delta=0.1", "gen-trust+delta=0.1+one-step"):
        run = UnlearningRun(make_spec(method="ngdiff", **settings_of(arm)), half_scored)
        prepare(run, arm)
        assert run.auto_lr is not None
        rates.append(run.auto_lr.rule.new_rate(SLOPED, parabola, delta=0.1, steps=10))
    assert rates == [pytest.approx(gen_trust(SLOPED, parabola, 0.1) / 10), gen_trust(SLOPED, parabola, 0.1)]


@pytest.mark.parametrize(
    ("plus", "minus", "rate"),
    [
        ((0.95, 0.95), (1.15, 1.15), 0.2),  # both batches have the slope 1
        ((0.75, 1.15), (1.35, 0.95), math.sqrt(2 * 0.005 / 10)),  # slopes 3 and -1: G counts as 0
    ],
)
def test_a_slope_below_twice_its_standard_error_counts_as_zero(plus, minus, rate):
    rule = significant(gen_trust, [(1.0, 1.0), plus, minus])
    delta = 0.0 if rate == 0.2 else 0.005
    assert rule(SLOPED, parabola, delta) == pytest.approx(rate)


@pytest.mark.parametrize("arm", ["off", "gen-trust+batches=1"])
def test_held_out_examples_are_not_scored_and_not_used_for_training(
    half_scored: Workspace, make_spec: MakeSpec, arm: str
) -> None:
    run = UnlearningRun(make_spec(method="ngdiff", **settings_of(arm)), half_scored)
    prepare(run, arm)
    data = half_scored.target.data
    trained = {index for epoch in range(9) for _, rows in run._batches.epoch(epoch, step=2 * epoch, max_steps=None)
               for index in rows}  # fmt: skip
    held_out = set(range(len(data.retain))) - trained
    assert len(held_out) == 2
    assert not {data.retain[index] for index in held_out} & {*data.retain_eval}
    if run.auto_lr is not None:
        assert {index for number in range(4) for index in run.auto_lr._probes[number]} == held_out


def test_the_probes_of_the_significance_test_are_measured_batch_by_batch(
    half_scored: Workspace, make_spec: MakeSpec
) -> None:
    arm = "gen-trust+batches=2+significant"
    run = UnlearningRun(make_spec(method="ngdiff", auto_lr_start=1, auto_lr_every=1, **settings_of(arm)), half_scored)
    recorded = rate_arms.record_probes(run)
    measure = run.losses.retain_probe([[0], [1]])
    assert measure() == pytest.approx(sum(recorded[0]) / 2)
    prepare(run, arm)
    reports = list(run)
    assert reports[-1].training["lr_updates"] == 4
