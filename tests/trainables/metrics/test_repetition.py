"""Repetition and the longest loop against counts by hand, and against a search through every stretch of a text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainables.data.examples import Example, Prompted, UnlearningData
from trainables.metrics.repetition import longest_loop, repetition, units
from trainables.scoring.evaluator import Evaluator

NAMES = ("forget_repetition", "retain_repetition", "forget_longest_loop", "retain_longest_loop")
few_units = st.lists(st.sampled_from(["is", "Was", ".", "!"]), max_size=20).map(" ".join)


def repetition_of(text: str) -> float:
    return float(repetition([text])[0])


def loop_of(text: str) -> float:
    return float(longest_loop([text])[0])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ada's book: 1,000 copies!", ["ada", "'", "s", "book", ":", "1", ",", "000", "copies", "!"]),
        ("is.is.is", ["is", ".", "is", ".", "is"]),
        ("!!!!", ["!", "!", "!", "!"]),
        ("lalalala", ["lalalala"]),
        ("Ärger über ÉTÉ", ["ärger", "über", "été"]),
        (" \n\t ", []),
        ("", []),
    ],
)
def test_the_units_of_a_text_are_words_and_single_marks(text: str, expected: list[str]) -> None:
    assert units(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0.0),
        ("one two", 0.0),  # no 3-gram
        ("one two three four", 0.0),  # 2 of 2 are distinct
        ("the cat sat and the cat sat", 1 - 4 / 5),  # tcs, csa, sat, atc, tcs: 4 of 5
        ("The cat sat. the CAT sat.", 1 - 4 / 6),  # tcs, cs., s.t, .tc, tcs, cs.: 4 of 6
        ("is.is.is.is", 1 - 2 / 5),  # is.is and .is. in turn, 5 of them
        ("!!!!", 1 - 1 / 2),
        ("no no no no no no no no no no no no", 1 - 1 / 10),
    ],
)
def test_repetition_is_the_share_of_3_grams_that_are_not_distinct(text: str, expected: float) -> None:
    assert repetition_of(text) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(
    ("text", "stretch", "length"),
    [
        ("", 0, 1),
        ("one two three", 0, 3),
        ("no no", 0, 2),
        ("no no no", 3, 3),
        ("she said no no no again", 3, 6),
        ("!!!!", 4, 4),
        ("is.is.is.is", 7, 7),  # "is ." three times and the "is" of a fourth
        ("is.is.is", 0, 5),  # five units, and twice the phrase of two is four: not three times
        ("a b c a b c", 0, 6),  # two repeats do not count
        ("a b c a b c a b c", 9, 9),
        ("a b c a b c a b", 0, 8),  # a unit short of three
        ("x a b a b a b a y", 7, 9),
        ("go go go and then a b a b a b", 6, 11),  # the longer of two loops
        ("no no no no no no no no a b a b a b a b a", 9, 17),  # eight, and nine with the longer phrase
        ("It ended...", 3, 5),
    ],
)
def test_the_longest_loop_repeats_a_phrase_three_times(text: str, stretch: int, length: int) -> None:
    assert loop_of(text) == pytest.approx(stretch / length, abs=1e-15)


def longest_stretch(found: list[str]) -> int:
    """Every stretch of the units, whether it is a phrase written again and again and cut off behind three of them."""
    best = 0
    for start in range(len(found)):
        for end in range(start + 1, len(found) + 1):
            stretch = found[start:end]
            phrases = (stretch[:size] for size in range(1, len(stretch) // 3 + 1))
            if any((phrase * len(stretch))[: len(stretch)] == stretch for phrase in phrases):
                best = max(best, len(stretch))
    return best


@given(few_units)
def test_the_longest_loop_is_the_one_found_by_trying_every_stretch(text: str) -> None:
    found = units(text)
    assert loop_of(text) == pytest.approx(longest_stretch(found) / max(1, len(found)), abs=1e-15)


def with_prompts(data: UnlearningData) -> UnlearningData:
    def prompts(of: tuple[Example, ...]) -> tuple[Prompted, ...]:
        return tuple(Prompted(f"{item.question} Say:", item.answer, 9, ()) for item in of)

    return replace(data, prompted={"verbmem": prompts(data.forget), "knowmem_retain": prompts(data.retain[:5])})


@pytest.mark.parametrize("prompted", [False, True])
def test_they_are_measured_on_the_texts_behind_verbmem_and_utility(
    make_network: Any, tokenizer: Any, tiny_data: UnlearningData, prompted: bool
) -> None:
    data = with_prompts(tiny_data) if prompted else tiny_data
    evaluator = Evaluator(data, tokenizer, vocabulary_size=len(tokenizer), max_length=64, batch_size=5, device="cpu")
    model, calls = make_network(seed=2), []
    generate = model.generate
    model.generate = lambda *given, **named: calls.append(1) or generate(*given, **named)
    alone = evaluator.measure(model, ("verbmem", "utility"))
    generated = len(calls)
    found = evaluator.measure(model, ("verbmem", "utility", *NAMES))
    assert len(calls) == 2 * generated > 0, "no text is generated for them alone"

    log = found.items
    if prompted:
        sides = {"forget": log["prompted"]["verbmem"], "retain": log["prompted"]["utility"]}
    else:
        sides = {"forget": log["eval_log_forget.json"], "retain": log["eval_log.json"]}
    for side, columns in sides.items():
        answers = [row[1] for row in columns["generated_text"].values()]
        loops = [longest_stretch(units(text)) / max(1, len(units(text))) for text in answers]
        assert found.metrics[f"{side}_longest_loop"] == pytest.approx(np.mean(loops), abs=1e-12)
        assert list(columns["longest_loop"].values()) == pytest.approx(loops, abs=1e-12)
        shares = list(columns["repetition"].values())
        assert shares == repetition(answers).tolist()
        assert found.metrics[f"{side}_repetition"] == pytest.approx(np.mean(shares), abs=1e-12)
    assert max(found.metrics[name] for name in NAMES) > 0.0, "a network that nobody has trained repeats itself"
    assert alone.metrics == {name: found.metrics[name] for name in ("verbmem", "utility")}
