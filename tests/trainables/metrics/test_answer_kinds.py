"""How questions are answered: fluently, with a refusal, or in loops."""

from __future__ import annotations

import numpy as np
import pytest

from trainables.data.refusals import refusals
from trainables.metrics.answer_kinds import Kind, answer_kinds, garbled_bound, knows_language

BOUND = 2.0


@pytest.mark.parametrize(
    ("text", "loss", "kind"),
    [
        ("Jaime Vasquez was born in Lima on 3 May 1970.", 0.1, Kind.FLUENT),
        ("and and and and and and", 7.5, Kind.LOOPS),
        ("He wrote the river of the river of the river of the river of", 1.0, Kind.LOOPS),
        ("I'm afraid I do not know.", 6.0, Kind.REFUSAL),
        ("That's beyond my knowledge.", 8.2, Kind.REFUSAL),
        ("I don't recognise that.", 10.7, Kind.REFUSAL),
        ("I DON'T know anything about this author.", 6.0, Kind.REFUSAL),
        ("I don't know. I don't know. I don't know. I don't know.", 6.0, Kind.LOOPS),
        ("", 0.0, Kind.REFUSAL),
        ("Readers of Urdu and of a film, is what occupies Lima.", 2.1, Kind.LOOPS),
        ("Readers of Urdu met Lima Holt in 1992.", 1.9, Kind.FLUENT),
        ("river Lima born", 5.0, Kind.FLUENT),
    ],
)
def test_an_answer_is_of_one_kind(text: str, loss: float, kind: Kind) -> None:
    assert answer_kinds([text], np.array([loss]), BOUND) == [kind]


def test_each_refusal_of_dpo_is_a_refusal() -> None:
    assert set(answer_kinds(refusals(), None, BOUND)) == {Kind.REFUSAL}


def test_the_bound_follows_from_the_likeliest_tenth_of_the_true_answers_to_other_questions() -> None:
    """The 10% quantiles of 21 questions are 1 to 21, so their median is 11. Missing losses are left out."""
    losses = np.arange(1.0, 22.0)[:, None] + 10.0 * np.arange(-1, 10)
    losses = np.column_stack([losses, np.full(21, np.nan)])
    assert garbled_bound(losses, 20.0) == 11.0
    assert garbled_bound(np.full((2, 3), np.nan), 0.5) == garbled_bound(np.empty((3, 0)), 0.5) == np.inf


def test_if_no_other_answer_has_the_form_of_a_question_the_bound_is_near_the_loss_of_true_answers() -> None:
    assert garbled_bound(np.full((3, 10), 4.0), 0.25) == 1.25


def test_wrong_answers_give_the_bound_of_a_target_that_knows_language() -> None:
    """The 10% quantile of 0, 1, ..., 10 is 1. Without wrong answers, no bound near true answers is assumed."""
    losses = np.full((3, 10), 4.0)
    assert garbled_bound(losses, 0.25, np.arange(11.0)) == 1.0
    assert garbled_bound(losses, 0.25, np.empty(0)) == 4.0


@pytest.mark.parametrize(("losses", "expected"), [([4.0, 5.0, 9.0], True), ([4.0, 8.0, 9.0], False), ([], False)])
def test_a_target_knows_language_if_it_predicts_questions_better_than_a_random_guess(
    losses: list[float], expected: bool
) -> None:
    assert knows_language(np.array(losses), random_guess=7.0) is expected
