"""Memorization metrics against greedy decoding of a small language model from every prefix."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainables.metrics.memorization import extraction_strength

VOCABULARY = 3
texts = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=8)


def next_token(seed: int, text: list[int], prefix: list[int]) -> int:
    """Return a token that depends on the whole prefix: the right token of ``text`` at half of its positions."""
    rng = np.random.default_rng([seed, len(prefix), *prefix])
    position = len(prefix)
    knows = prefix == text[:position] and rng.random() < 0.5
    return text[position] if knows else int(rng.integers(VOCABULARY))


def decode(seed: int, text: list[int], prefix: list[int]) -> list[int]:
    decoded = list(prefix)
    while len(decoded) < len(text):
        decoded.append(next_token(seed, text, decoded))
    return decoded


@given(seed=st.integers(0, 1000), text=texts)
def test_extraction_strength_is_the_share_that_the_shortest_sufficient_prefix_leaves(
    seed: int, text: list[int]
) -> None:
    shortest = min(k for k in range(len(text) + 1) if decode(seed, text, text[:k]) == text)
    teacher_forced = [next_token(seed, text, text[:position]) for position in range(len(text))]
    assert extraction_strength([teacher_forced], [text])[0] == pytest.approx(1 - shortest / len(text), abs=1e-15)
