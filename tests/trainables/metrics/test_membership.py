"""Membership inference against brute force over all pairs and closed forms."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

from trainables.metrics.items import Array
from trainables.metrics.membership import (
    loss_scores,
    membership_auc,
    min_k_plus_plus_scores,
    min_k_scores,
    reference_scores,
    zlib_scores,
)

scores = st.lists(
    st.one_of(st.integers(-3, 3).map(float), st.floats(-5.0, 5.0), st.sampled_from([-math.inf, math.inf])),
    min_size=1,
    max_size=12,
)
log_probabilities = st.lists(st.floats(-50.0, 0.0), min_size=1, max_size=12)


@given(members=scores, others=scores)
def test_auc_is_the_share_of_pairs_won_with_ties_counting_half(members: list[float], others: list[float]) -> None:
    won = sum((m > o) + 0.5 * (m == o) for m in members for o in others)
    assert membership_auc(members, others) == won / (len(members) * len(others))


def test_auc_agrees_with_the_mann_whitney_statistic_and_nan_stays_nan() -> None:
    rng = np.random.default_rng(0)
    members, others = rng.integers(0, 50, 200).astype(float), rng.integers(10, 60, 300).astype(float)
    expected = mannwhitneyu(members, others).statistic / (200 * 300)
    assert membership_auc(members, others) == pytest.approx(expected, rel=1e-14)
    assert math.isnan(membership_auc([1.0, math.nan], [1.0]))
    assert math.isnan(membership_auc([1.0], [math.nan]))


@given(members=scores, others=scores)
def test_auc_of_exchanged_sides_is_the_complement(members: list[float], others: list[float]) -> None:
    assert membership_auc(members, others) + membership_auc(others, members) == pytest.approx(1.0, abs=1e-15)


def test_the_loss_score_is_the_log_of_the_geometric_mean_probability() -> None:
    found = loss_scores([np.log([0.5, 0.125]), np.log([0.2])])
    assert np.exp(found) == pytest.approx([0.25, 0.2], rel=1e-14)


def test_the_zlib_score_is_relative_to_the_compressed_bytes_of_the_text() -> None:
    texts = ["ab" * 500, "Ĉu ne? 東京"]
    compressor = zlib.compressobj()
    sizes = [len(zlib.compress(texts[0].encode("utf-8"))), len(compressor.compress(texts[1].encode()))]
    sizes[1] += len(compressor.flush())
    assert sizes[0] < 50 < len(texts[0])
    assert zlib_scores([[-2.0, -4.0], [-1.0]], texts) == pytest.approx([-3.0 / sizes[0], -1.0 / sizes[1]], rel=1e-15)


@given(tokens=log_probabilities, percent=st.integers(1, 100))
def test_min_k_is_the_mean_of_the_least_likely_tokens(tokens: list[float], percent: int) -> None:
    fraction = percent / 100
    remaining, lowest = list(tokens), []
    for _ in range(max(1, math.floor(fraction * len(tokens)))):
        lowest.append(min(remaining))
        remaining.remove(lowest[-1])
    expected = math.fsum(lowest) / len(lowest)
    assert min_k_scores([tokens], fraction=fraction)[0] == pytest.approx(expected, rel=1e-12, abs=1e-300)


@given(tokens=log_probabilities)
def test_min_k_of_all_tokens_is_the_loss_score(tokens: list[float]) -> None:
    assert min_k_scores([tokens], fraction=1.0)[0] == pytest.approx(loss_scores([tokens])[0], rel=1e-12, abs=1e-300)
    # By default 40%, as in MUSE, and at least one token.
    assert min_k_scores([[-1.0, -5.0, -2.0, -4.0, -3.0], [-1.0, -9.0]]).tolist() == [-4.5, -9.0]


def test_min_k_plus_plus_of_two_words_is_the_root_of_their_odds() -> None:
    """Of words with p and q = 1 - p, p > q: mu and sigma^2 = p q ln(p/q)^2 make the likelier word sqrt(q/p) and the
    other -sqrt(p/q)."""
    p = np.array([0.9, 0.8, 0.6])
    q = 1 - p
    mean, std = p * np.log(p) + q * np.log(q), np.sqrt(p * q) * np.log(p / q)
    likelier = min_k_plus_plus_scores([np.log(p)], [mean], [std], fraction=1.0)
    other = min_k_plus_plus_scores([np.log(q)], [mean], [std], fraction=1.0)
    lowest = min_k_plus_plus_scores([np.log(q)], [mean], [std], fraction=0.1)
    assert likelier == pytest.approx([np.sqrt(q / p).mean()], rel=1e-12)
    assert other == pytest.approx([-np.sqrt(p / q).mean()], rel=1e-12)
    assert lowest == pytest.approx([-3.0], rel=1e-12)


def test_min_k_plus_plus_of_a_position_without_doubt_is_finite() -> None:
    """A model sure of one word: log p = 0 is also the mean, and the spread 0."""
    assert min_k_plus_plus_scores([[0.0]], [[0.0]], [[0.0]]).tolist() == [0.0]
    assert min_k_plus_plus_scores([[-2.0]], [[0.0]], [[0.0]]).tolist() == [-2000.0]


def test_the_reference_score_is_the_gain_over_the_reference_model() -> None:
    found = reference_scores([[-1.0, -3.0], [-5.0]], [[-4.0, -4.0], [-1.0, -2.0, -3.0]])
    assert found.tolist() == [2.0, -3.0]


Attack = Callable[[Sequence[Array]], Array]
ATTACKS: dict[str, Attack] = {
    "loss": loss_scores,
    "zlib": lambda tokens: zlib_scores(tokens, ["a text"] * len(tokens)),
    "min-k": min_k_scores,
    "min-k++": lambda tokens: min_k_plus_plus_scores(tokens, tokens_like(tokens, -2.0), tokens_like(tokens, 1.5)),
    "reference": lambda tokens: reference_scores(tokens, tokens_like(tokens, -3.0)),
}


def tokens_like(tokens: Sequence[Array], value: float) -> list[Array]:
    return [np.full_like(row, value) for row in tokens]


@pytest.mark.parametrize("attack", ATTACKS)
def test_every_attack_finds_texts_known_by_heart(attack: str) -> None:
    rng = np.random.default_rng(0)
    known = [-0.1 * rng.random(rng.integers(5, 20)) for _ in range(10)]
    unknown = [-4.0 - rng.random(rng.integers(5, 20)) for _ in range(10)]
    assert membership_auc(ATTACKS[attack](known), ATTACKS[attack](unknown)) == 1.0


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_nan_token_makes_its_text_nan(attack: str) -> None:
    rows = [np.array([-1.0, np.nan, -3.0, -4.0, -5.0]), np.array([-1.0, -2.0])]
    assert np.isnan(ATTACKS[attack](rows)).tolist() == [True, False]
