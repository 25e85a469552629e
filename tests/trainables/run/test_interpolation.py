"""The end of a run: the choice of a model on the line from the target's weights to the last weights."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.trainables.conftest import Start
from tests.trainables.runs import weights_of
from trainables.run.interpolation import FORGOTTEN_SHARE, HALVINGS, KEPT_SHARE, Quality, choose_position
from trainables.run.reports import Outcome, Status
from trainables.run.run_state import weights_between

STEP = 0.5**HALVINGS


@given(st.floats(0.0, 1.0), st.floats(0.0, 0.999))
def test_the_choice_is_not_nearer_than_the_last_model_that_keeps_all_answers(forgotten: float, all_kept: float) -> None:
    """Up to the position ``all_kept``, more forgetting costs no answers; behind it, it costs a tenth of them."""

    def look(share: float) -> Quality:
        forget_loss = 8.0 if share >= forgotten else 1.0 if share else 0.0
        return Quality(forget_loss, 0.9 if share <= all_kept else 0.81, share)

    found = choose_position(look, look(1.0))
    assert found >= all_kept - STEP
    assert found >= forgotten
    assert found <= max(all_kept, forgotten) + 2 * STEP


@pytest.mark.parametrize("answers", [math.nan, 0.0, 0.05])
def test_a_target_that_hardly_gives_an_answer_is_judged_by_its_retain_loss(answers: float) -> None:
    """The limit lies between 0.2 and 0.25, because exp(-0.2) > 0.8 > exp(-0.25)."""

    def look(share: float) -> Quality:
        return Quality(8.0 if share > 0.9 else 1.0, answers * (1.0 - share), 1.0 + share)

    found = choose_position(look, look(1.0))
    assert found == pytest.approx(-math.log(KEPT_SHARE), abs=STEP)
    assert choose_position(lambda share: Quality(8.0 * share, answers, 1.0), Quality(8.0, answers, 1.0)) == 1.0


@pytest.mark.parametrize("known", [0.9, 0.3])
def test_both_limits_are_relative_to_what_the_target_knew(known: float) -> None:
    """The loss rises from 2.0 to 2.2 nats, so it exceeds 0.9 times 2.2 from the start."""

    def look(share: float) -> Quality:
        return Quality(2.0 + 0.2 * share, known if share == 0.0 else 0.9 * known, 0.0)

    assert choose_position(look, look(1.0)) == pytest.approx(FORGOTTEN_SHARE, abs=STEP)


def test_the_final_model_is_on_the_line_and_is_the_one_reported_and_earlier_epochs_are_unchanged(start: Start) -> None:
    changes = {"method": "gdiff", "lr": 1e-1, "epochs": 4, "batch_size": 4, "lora_rank": 4}
    run = start(**changes)
    run._evaluate()
    at_first = run._scores.retain_agreement
    begin = weights_of(run)
    *before, last = [report.losses for report in run]
    end = weights_of(run)
    run = start(interpolate="on", **changes)
    *others, report = list(run)
    assert [other.losses for other in others] == before
    share = report.training["interpolation"]
    assert Outcome.after(report, status=Status.FINISHED).interpolation == share
    assert 0.0 < share < 1.0
    for found, one, other in zip(run.parameters, begin, end, strict=True):
        torch.testing.assert_close(found.detach(), torch.lerp(one, other, share))
    assert run._evaluator.scores(run.model).loss_metrics() == report.losses != last
    assert report.losses["forget_loss_capped"] <= last["forget_loss_capped"]
    assert run._scores.retain_agreement >= KEPT_SHARE * at_first


def test_a_buffer_that_is_infinite_at_both_ends_stays_infinite() -> None:
    here, there = torch.tensor([0.0, -math.inf]), torch.tensor([1.0, -math.inf])
    moved = weights_between({"parameters": [], "buffers": [here]}, {"parameters": [], "buffers": [there]}, 0.5)
    assert moved["buffers"][0].tolist() == [0.5, -math.inf]
