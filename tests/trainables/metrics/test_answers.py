"""ROUGE-L, repetition and loops of answers against counts by hand and against a search through all possibilities."""

from __future__ import annotations

import unicodedata
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from search_spaces.common.words import units
from trainables.metrics.repetition import longest_loop, repetition
from trainables.metrics.rouge import rouge_l_recall

few_units = st.lists(st.sampled_from(["is", "Was", ".", "!"]), max_size=20).map(" ".join)


def test_recall_by_hand() -> None:
    references = ["the red cat", "one two", "Authors, writing novels!", "one", "?!", ""]
    predictions = ["the big red cat ran off home", "two one", "author writes NOVEL", "", "one", ""]
    # Recall, neither precision nor F1; the order and the stems of words count, case and punctuation do not.
    assert rouge_l_recall(references, predictions).tolist() == [1.0, 0.5, 1.0, 0.0, 0.0, 0.0]
    assert rouge_l_recall([], []).shape == (0,)


@given(st.text(st.characters(max_codepoint=127)), st.text(st.characters(max_codepoint=127)))
def test_recall_in_ascii_is_that_of_the_package(reference: str, prediction: str) -> None:
    published = RougeScorer(["rougeL"], use_stemmer=True).score(reference, prediction)["rougeL"].recall
    assert rouge_l_recall([reference], [prediction]).tolist() == [published]


@pytest.mark.parametrize(
    "text",
    [
        "Оксана Коваль мешкає у місті Полтава, біля річки.",
        "Ξένια Παπαδάκη, στην Αθήνα",
        "خدیجه در شیراز زندگی می‌کند.",
        "शीला नई दिल्ली में रहती है।",
        "李明住在杭州，靠近西湖。",
        "さくらはコーヒーが好きです。",
        "สมชายอยู่ที่เชียงใหม่",
        "김민서는 부산에 산다.",
        "José González vive en Évora",
    ],
)
def test_recall_counts_words_of_every_script_in_order(text: str) -> None:
    half = text[: len(text) // 2]
    found = rouge_l_recall([text] * 5, [text, unicodedata.normalize("NFD", text), text.upper(), half, "?"])
    assert found[:3].tolist() == [1.0] * 3
    assert 0.2 < found[3] < 0.7
    assert found[4] == 0.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0.0),
        ("The cat sat. the CAT sat.", 1 - 4 / 6),  # tcs, cs., s.t, .tc, tcs, cs.: 4 of 6
        ("is.is.is.is", 1 - 2 / 5),  # is.is and .is. in turn, 5 of them
        ("Ärger!!!! lalalala", 1 - 3 / 4),  # Ä!!, !!!, !!!, !!l: a word is one unit
        ("是" * 12, 1 - 1 / 10),
        ("ที่ที่ที่ที่", 1 - 1 / 2),  # a letter and its marks are one unit
    ],
)
def test_repetition_is_the_share_of_3_grams_that_are_not_distinct(text: str, expected: float) -> None:
    assert repetition([text]) == pytest.approx(np.array([expected]), abs=1e-15)


@given(few_units)
def test_the_longest_loop_is_the_one_found_by_trying_every_stretch(text: str) -> None:
    found, best = units(text), 0
    for start, end in combinations(range(len(found) + 1), 2):
        stretch = found[start:end]
        phrases = (stretch[:size] for size in range(1, len(stretch) // 3 + 1))
        if any((phrase * len(stretch))[: len(stretch)] == stretch for phrase in phrases):
            best = max(best, len(stretch))
    assert longest_loop([text]) == pytest.approx(np.array([best / max(1, len(found))]), abs=1e-15)
