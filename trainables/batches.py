"""Which items come together in a batch: by length, so that little is padding, and in an order that is reproducible."""

from __future__ import annotations

import random
from collections.abc import Sequence


def epoch_batches(lengths: Sequence[int], batch_size: int, key: str) -> list[list[int]]:
    """One pass over all items in random batches of similar length, a pure function of ``key``.

    Items are shuffled, sorted by length (with 4% jitter, so that batches differ between passes) inside windows of
    50 batches, cut, and the batches shuffled; the last one may be short.
    """
    rng = random.Random(key)
    order = list(range(len(lengths)))
    rng.shuffle(order)
    window = 50 * batch_size
    batches: list[list[int]] = []
    for start in range(0, len(order), window):
        chunk = sorted(order[start : start + window], key=lambda i: lengths[i] * rng.uniform(0.96, 1.04))
        batches += [chunk[i : i + batch_size] for i in range(0, len(chunk), batch_size)]
    rng.shuffle(batches)
    return batches


class EndlessBatches:
    """Endless passes over a set in batches by length, each pass in an order of its own.

    ``batches[n]`` is the ``n``-th batch, as indices: a pure function of the lengths, the batch size, ``key`` and ``n``.
    """

    def __init__(self, lengths: Sequence[int], batch_size: int, key: str) -> None:
        self._lengths = lengths
        self._batch_size = batch_size
        self._key = key
        self._per_pass = -(-len(lengths) // batch_size)
        self._kept: tuple[int, list[list[int]]] = (-1, [])

    def __getitem__(self, number: int) -> list[int]:
        passes, place = divmod(number, self._per_pass)
        if self._kept[0] != passes:
            self._kept = (passes, epoch_batches(self._lengths, self._batch_size, f"{self._key}:{passes}"))
        return self._kept[1][place]


def padded_positions(lengths: Sequence[int]) -> tuple[int, int]:
    """How many positions of a batch of sequences of these lengths are padding, and how many it has."""
    positions = len(lengths) * max(lengths)
    return positions - sum(lengths), positions


def sorted_batches(lengths: Sequence[int], batch_size: int) -> list[list[int]]:
    """All items once, longest first: the least padding, and running out of memory shows at the first batch."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    return [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
