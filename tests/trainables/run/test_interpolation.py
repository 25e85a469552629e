"""The end of a run: the choice of a model on the line from the target's weights to the last weights."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.trainables.conftest import Start
from tests.trainables.runs import weights_of
from trainables.data import DataError
from trainables.run.interpolation import HALVINGS, KEPT_SHARE, SLICE, Quality, choose_position, unscored_rows
from trainables.run.reports import Outcome, Status
from trainables.run.run_state import weights_between
from trainables.run.workspace import Workspace
from trainables.target.target import Target

STEP = 0.5**HALVINGS
GIVEN = {"method": "gdiff", "lr": 1e-1, "epochs": 4, "batch_size": 4, "lora_rank": 4}


@pytest.fixture(scope="module")
def workspace(half_scored: Workspace) -> Workspace:
    return half_scored


@given(st.floats(0.0, 1.0), st.floats(0.1, 1.0))
def test_the_choice_is_the_last_position_that_keeps_the_target_s_quality(limit: float, known: float) -> None:
    """Up to the position ``limit``, the model gives all answers of the target; behind it, 70% of them."""

    def look(position: float) -> Quality:
        return Quality(known if position <= limit else 0.7 * known, position)

    found = choose_position(look, look(1.0))
    assert found <= limit
    assert found > limit - STEP or found == limit


@pytest.mark.parametrize("answers", [0.0, 0.05])
def test_a_target_that_hardly_gives_an_answer_is_judged_by_its_retain_loss(answers: float) -> None:
    def look(position: float) -> Quality:
        return Quality(answers * (1.0 - position), 1.0 + position)

    assert choose_position(look, look(1.0)) == pytest.approx(-math.log(KEPT_SHARE), abs=STEP)
    assert choose_position(lambda position: Quality(answers, 1.0), Quality(0.0, 1.0)) == 1.0


def test_a_model_between_that_has_no_loss_has_lost_its_quality() -> None:
    def look(position: float) -> Quality:
        return Quality(0.0, 1.0 if position <= 0.25 else math.nan)

    assert choose_position(look, Quality(0.0, 9.0)) == 0.25


def test_the_slice_has_no_scored_example_even_if_its_paraphrases_differ(target: Target) -> None:
    data = target.data
    scored = tuple(replace(example, paraphrased_answer="") for example in data.retain[::2])
    assert unscored_rows(replace(data, retain_eval=scored)) == [1, 3, 5, 7]
    many = replace(data, retain=data.retain * 50, retain_eval=scored)
    rows = unscored_rows(many)
    assert len(rows) == SLICE
    assert {many.retain[row].question for row in rows} == {example.question for example in data.retain[1::2]}
    with pytest.raises(DataError, match=r"all 8 retain examples of tiny .*--interpolate off"):
        unscored_rows(data)


def test_the_final_model_is_on_the_line_and_is_the_one_reported_and_earlier_epochs_are_unchanged(start: Start) -> None:
    run = start(**GIVEN)
    begin = weights_of(run)
    *before, last = [report.losses for report in run]
    end = weights_of(run)
    run = start(interpolate="on", **GIVEN)
    at_first = run._quality()
    *others, report = list(run)
    assert [other.losses for other in others] == before
    share = report.training["interpolation"]
    assert Outcome.after(report, status=Status.FINISHED).interpolation == share
    assert 0.0 < share < 1.0
    for found, one, other in zip(run.parameters, begin, end, strict=True):
        torch.testing.assert_close(found.detach(), torch.lerp(one, other, share))
    assert run._evaluator.scores(run.model).loss_metrics() == report.losses != last
    assert run._quality().agreement >= KEPT_SHARE * at_first.agreement


def test_the_choice_does_not_use_the_evaluation_and_its_time_is_counted_apart(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The evaluator runs once per epoch, although the choice measures seven models."""
    run = start(interpolate="on", **GIVEN)
    scored: list[object] = []
    scores = run._evaluator.scores
    monkeypatch.setattr(run._evaluator, "scores", lambda model, **given: scored.append(model) or scores(model, **given))
    *_, report = list(run)
    assert len(scored) == run.spec.epochs
    assert report.timers.decision_seconds > 0.0
    outcome = Outcome.after(report, status=Status.FINISHED)
    assert outcome.row()["decision_seconds"] == report.timers.decision_seconds


def test_a_run_whose_last_weights_have_no_loss_is_diverged_and_not_moved_back(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(interpolate="on", method="gdiff", epochs=1, max_steps=1)
    step = run.optimizer.step

    def spoil() -> None:
        step()
        with torch.no_grad():
            run.parameters[0].fill_(math.nan)

    monkeypatch.setattr(run.optimizer, "step", spoil)
    report = next(run)
    assert report.status is Status.DIVERGED
    assert "interpolation" not in report.training


def test_a_buffer_that_is_infinite_at_both_ends_stays_infinite() -> None:
    here, there = torch.tensor([0.0, -math.inf]), torch.tensor([1.0, -math.inf])
    moved = weights_between({"parameters": [], "buffers": [here]}, {"parameters": [], "buffers": [there]}, 0.5)
    assert moved["buffers"][0].tolist() == [0.5, -math.inf]
