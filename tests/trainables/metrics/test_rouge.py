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


@pytest.mark.parametrize(
    ("reference", "prediction", "recall"),
    [
        ("the red cat", "the big red cat ran off home", 1.0),  # neither precision nor F1
        ("one two", "two one", 0.5),  # order counts
        ("Authors, writing novels!", "author writes NOVEL", 1.0),  # stems; case and punctuation do not count
        ("one", "", 0.0),
        ("?!", "one", 0.0),
        ("", "", 0.0),
    ],
)
def test_recall_by_hand(reference: str, prediction: str, recall: float) -> None:
    assert rouge_l_recall([reference], [prediction]).tolist() == [recall]


def test_each_item_is_scored_with_its_own_reference() -> None:
    recalls = rouge_l_recall(["one two", "six ten", "ten"], ["one two", "one six", "one"])
    assert recalls.tolist() == [1.0, 0.5, 0.0]
    assert recalls.dtype == np.float64
    assert rouge_l_recall([], []).shape == (0,)
