"""How questions are answered: fluently, with a refusal, or in loops."""

from __future__ import annotations

import numpy as np
import pytest

from trainables.data.refusals import refusals
from trainables.metrics.answer_kinds import Kind, answer_kinds

GUESS = 8.0


@pytest.mark.parametrize(
    ("text", "loss", "kind"),
    [
        ("Jaime Vasquez was born in Lima on 3 May 1970.", 0.1, Kind.FLUENT),
        ("and and and and and and", 7.5, Kind.LOOPS),
        ("He wrote the river of the river of the river of the river of", 1.0, Kind.LOOPS),
        ("I'm afraid I do not know.", 6.0, Kind.REFUSAL),
        ("I DON'T know anything about this author.", 6.0, Kind.REFUSAL),
        ("I don't know. I don't know. I don't know. I don't know.", 6.0, Kind.LOOPS),
        ("", 0.0, Kind.REFUSAL),
        ("river Lima born 3 author shelf", 5.0, Kind.LOOPS),
        ("river Lima born 3 author shelf", 3.9, Kind.FLUENT),
    ],
)
def test_an_answer_is_of_one_kind(text: str, loss: float, kind: Kind) -> None:
    assert answer_kinds([text], np.array([loss]), GUESS) == [kind]


def test_each_refusal_of_dpo_is_a_refusal() -> None:
    assert set(answer_kinds(refusals(), None, GUESS)) == {Kind.REFUSAL}
