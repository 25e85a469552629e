"""ROUGE-L recall against a longest common subsequence found by trying all of them."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainables.metrics.rouge import rouge_l_recall

words = st.lists(st.sampled_from(["a", "by", "cat"]), max_size=7)  # too short for the stemmer to touch


def longest_common_subsequence(left: list[str], right: list[str]) -> int:
    def subsequences(of: list[str], length: int) -> set[tuple[str, ...]]:
        return set(combinations(of, length))

    return max(n for n in range(len(left) + 1) if n == 0 or subsequences(left, n) & subsequences(right, n))


@given(reference=words.filter(bool), prediction=words)
def test_recall_is_the_share_of_the_reference_in_the_longest_common_subsequence(
    reference: list[str], prediction: list[str]
) -> None:
    expected = longest_common_subsequence(reference, prediction) / len(reference)
    assert rouge_l_recall([" ".join(reference)], [" ".join(prediction)])[0] == pytest.approx(expected, abs=1e-15)


def test_it_is_recall_and_neither_precision_nor_f1() -> None:
    assert rouge_l_recall(["the red cat"], ["the big red cat ran off home"]).tolist() == [1.0]


def test_order_matters() -> None:
    assert rouge_l_recall(["one two"], ["two one"]).tolist() == [0.5]


def test_words_are_stemmed_and_case_and_punctuation_ignored() -> None:
    assert rouge_l_recall(["Authors, writing novels!"], ["author writes NOVEL"]).tolist() == [1.0]


def test_each_item_is_scored_with_its_own_reference() -> None:
    recalls = rouge_l_recall(["one two", "six ten", "ten"], ["one two", "one six", "one"])
    assert recalls.tolist() == [1.0, 0.5, 0.0]
    assert recalls.dtype == np.float64


def test_an_empty_answer_and_a_reference_without_words_score_0() -> None:
    assert rouge_l_recall(["one", "?!", ""], ["", "one", ""]).tolist() == [0.0, 0.0, 0.0]


def test_of_no_items_there_are_no_recalls() -> None:
    assert rouge_l_recall([], []).shape == (0,)


def test_a_prediction_too_few_is_an_error() -> None:
    with pytest.raises(ValueError, match="got 1 for 2"):
        rouge_l_recall(["one", "two"], ["one"])
