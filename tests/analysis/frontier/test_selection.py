"""The selection of a model among the models that meet the thresholds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from analysis.frontier.assessment import REPETITION_MARGIN
from analysis.frontier.judgement import ModelChoice, Outcome, choose_model
from analysis.frontier.selection import TOLERANCE, Decision, beaten_rows
from tests.analysis.conftest import MakeSweep, tables_of, trial

TARGET = {
    "forget_loss_capped": 0.04,
    "retain_loss": 0.05,
    "verbmem": 0.95,
    "utility": 0.8,
    "truth_ratio": 0.5,
    "retain_repetition": 0.01,
    "retain_longest_loop": 0.0,
    "forget_repetition": 0.01,
}
CALM = {"retain_repetition": 0.02, "retain_longest_loop": 0.0, "forget_repetition": 0.05}
LOOPING = {"retain_repetition": 0.6, "retain_longest_loop": 0.7, "forget_repetition": 0.9}
Model = tuple[float, float, dict[str, object]]
Choose = Callable[..., ModelChoice]


def model(forget: float, retain: float, **own: object) -> Model:
    return forget, retain, {"verbmem": 0.05, "utility": 0.7, "truth_ratio": 0.5, **CALM, **own}


@pytest.fixture
def chosen(make_sweep: MakeSweep) -> Choose:
    def make(*models: Model, **entries: object) -> ModelChoice:
        rows = [trial(str(i), forget, retain, **own) for i, (forget, retain, own) in enumerate(models)]
        return choose_model(*tables_of(make_sweep(rows, **{"baseline": TARGET} | entries)))

    return make


SILENT = dict.fromkeys(CALM)
SELECTED = {
    "without a metric of the retain set the nearest to the ideal corner": (
        [model(5.0, 0.1, utility=None), model(7.0, 0.15, utility=None)],
        ("1", Decision.TRADE_OFF, {}),
    ),
    "not one with a perfect retain loss and repetitive answers": (
        [model(7.9, 0.0, utility=0.8, **LOOPING), model(5.0, 0.4)],
        ("1", Decision.ONLY, {"repeating": 1}),
    ),
    "not a beaten model that is nearer to the ideal corner": (
        [
            model(7.60, 0.50, verbmem=0.09, utility=0.60, truth_ratio=0.45),
            model(7.47, 0.45, verbmem=0.04, utility=0.75),
        ],
        ("1", Decision.ONLY, {"beaten": 1}),
    ),
    "of near equals the one with less repetition in forget answers": (
        [
            model(7.60, 0.10, forget_repetition=0.60),
            model(7.55, 0.10, utility=0.69, truth_ratio=0.45),
            model(6.00, 0.02, utility=0.60, forget_repetition=0.0),
        ],
        ("1", Decision.FLUENCY, {}),
    ),
    "of models that keep equally much the nearest to the ideal corner": (
        [model(5.0, 0.1, verbmem=0.01), model(7.0, 0.1, utility=0.7 - 0.9 * TOLERANCE)],
        ("1", Decision.KEEPING, {}),
    ),
    "not a nearer model that keeps less by more than the tolerance": (
        [model(5.0, 0.1, verbmem=0.01), model(7.0, 0.1, utility=0.7 - 1.1 * TOLERANCE)],
        ("0", Decision.KEEPING, {}),
    ),
    "a fluent model before one that was not checked": (
        [model(7.0, 0.1, **SILENT), model(5.0, 0.1, utility=0.75)],
        ("1", Decision.ONLY, {"unmeasured": 1}),
    ),
    **{
        f"{name} {side} the margin": (
            [model(7.0, 0.1, **{name: TARGET[name] + share * REPETITION_MARGIN}), model(4.0, 0.05, utility=0.6)],
            ("0", Decision.KEEPING, {}) if side == "within" else ("1", Decision.ONLY, {"repeating": 1}),
        )
        for name in ("retain_repetition", "retain_longest_loop")
        for side, share in (("within", 0.99), ("beyond", 1.01))
    },
}


@pytest.mark.parametrize("case", SELECTED)
def test_one_of_the_acceptable_models_is_selected(chosen: Choose, case: str) -> None:
    models, (trial_id, decision, left_out) = SELECTED[case]
    choice = chosen(*models)
    assert choice.row is not None
    assert (choice.row["trial_id"], choice.judgement.outcome) == (trial_id, Outcome.GOOD)
    assert choice.judgement.selection is not None
    facts = {"repeating": 0, "unmeasured": 0, "beaten": 0} | left_out
    assert choice.judgement.selection.to_dict() == {"decision": decision, "eligible": len(models)} | facts


def test_if_no_threshold_decides_forgetting_the_nearest_to_the_ideal_corner_is_selected(chosen: Choose) -> None:
    models = model(5.0, 0.1, utility=0.75), model(7.0, 0.15, utility=0.6)
    choice = chosen(*models, baseline=TARGET | {"verbmem": 0.05})  # the target already meets the threshold
    assert choice.row is not None
    assert (choice.row["trial_id"], choice.judgement.outcome) == ("1", Outcome.GOOD)
    assert choice.judgement.selection is not None
    assert choice.judgement.selection.decision is Decision.TRADE_OFF


def test_a_target_that_repeats_itself_sets_the_limit(chosen: Choose) -> None:
    target = TARGET | {"retain_repetition": 0.58, "retain_longest_loop": 0.7}
    assert chosen(model(7.0, 0.1, **LOOPING), baseline=target).judgement.recommended


def test_nothing_is_recommended_if_no_acceptable_model_is_fluent(chosen: Choose) -> None:
    less = {**LOOPING, "retain_repetition": 0.3, "retain_longest_loop": 0.2}
    choice = chosen(model(7.0, 0.1, **LOOPING), model(6.0, 0.1, **less), model(1.0, 0.1, verbmem=0.9))
    assert (choice.judgement.outcome, choice.judgement.recommended) == (Outcome.REPETITIVE, False)
    assert (choice.judgement.position, choice.judgement.unjudged) == (1, 0)


VALUES = st.sampled_from([0.0, 0.015, 0.03, 0.045, 0.06, float("nan")])
COSTS = arrays(np.float64, st.tuples(st.integers(1, 7), st.just(3)), elements=VALUES)


@given(COSTS)
def test_beaten_models_equal_a_direct_reading_of_the_definition(costs: np.ndarray) -> None:
    def beats(one: np.ndarray, other: np.ndarray) -> bool:
        shared = [(a, b) for a, b in zip(one, other, strict=True) if not np.isnan(b)]
        if not shared or any(np.isnan(a) for a, _ in shared):
            return False
        return all(a - b <= TOLERANCE for a, b in shared) and any(b - a > TOLERANCE for a, b in shared)

    expected = [any(beats(one, other) for one in costs) for other in costs]
    found = beaten_rows(costs).tolist()
    assert not all(found)
    if not all(expected):
        assert found == expected


def test_of_a_cycle_of_defeats_one_model_stays() -> None:
    costs = -0.019 * np.array([[0.0, 0.0, 0.0], [2.0, -0.9, -0.9], [1.0, 1.0, -1.8]])
    assert beaten_rows(costs).tolist() == [True, False, True]
