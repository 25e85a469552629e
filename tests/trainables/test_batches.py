"""Batches contain every item and depend only on the key."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from trainables.batches import EndlessBatches, epoch_batches, sorted_batches


@settings(max_examples=25)
@given(st.lists(st.integers(1, 500), min_size=1, max_size=150), st.integers(1, 40), st.text(max_size=8))
def test_an_epoch_is_a_partition_into_full_batches(lengths: list[int], batch_size: int, key: str) -> None:
    batches = epoch_batches(lengths, batch_size, key)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    sizes = sorted(map(len, batches), reverse=True)
    assert sizes[:-1] == [batch_size] * (len(sizes) - 1)
    assert 1 <= sizes[-1] <= batch_size


@given(st.lists(st.integers(1, 500), max_size=60), st.integers(1, 9))
def test_sorted_batches_are_a_partition_longest_first(lengths: list[int], batch_size: int) -> None:
    batches = sorted_batches(lengths, batch_size)
    order = [index for batch in batches for index in batch]
    assert sorted(order) == list(range(len(lengths)))
    assert [lengths[index] for index in order] == sorted(lengths, reverse=True)
    assert all(len(batch) == batch_size for batch in batches[:-1])


def test_an_epoch_is_a_function_of_its_key_alone() -> None:
    """The expected batches come from another process. The global RNG is not used."""
    state = random.getstate()
    assert epoch_batches([10, 3, 7, 12, 5, 6, 9], 3, "forget:0:0.0") == [[3], [2, 6, 0], [1, 4, 5]]
    assert random.getstate() == state


def test_endless_batches_pass_over_the_whole_set_again_and_again_from_any_place() -> None:
    lengths = [3, 9, 4, 1, 5, 9, 2]
    batches = EndlessBatches(lengths, 2, "retain:0")
    passes = [[batches[number] for number in range(4 * i, 4 * i + 4)] for i in range(3)]
    for each in passes:
        assert sorted(index for batch in each for index in batch) == list(range(7))
    assert passes[0] != passes[1]
    assert EndlessBatches(lengths, 2, "retain:0")[9] == batches[9] == passes[2][1]
    assert [EndlessBatches(lengths, 2, "retain:1")[number] for number in range(4)] != passes[0]
