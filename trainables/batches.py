"""Group items into batches of similar length, so that little is padding, in a reproducible order."""

from __future__ import annotations

import random
from collections.abc import Sequence

Pair = tuple[list[int], list[int]]
"""One step's batches: indices into the forget set and into the retain set."""


def epoch_batches(lengths: Sequence[int], batch_size: int, key: str) -> list[list[int]]:
    """Return one pass over all items in random batches of similar length, a pure function of ``key``.

    Items are shuffled, sorted by length (with 4% jitter, so that batches differ between passes) inside windows of
    50 batches, and cut into batches, which are shuffled. At most one batch is short.
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
    """Endless passes over a set in batches of similar length; every pass has its own order.

    ``batches[n]`` is the ``n``-th batch, as indices: a pure function of the lengths, the batch size, ``key`` and ``n``.
    """

    def __init__(self, lengths: Sequence[int], batch_size: int, key: str) -> None:
        self._lengths = lengths
        self._batch_size = batch_size
        self._key = key
        self._per_pass = -(-len(lengths) // batch_size)
        self._cached: tuple[int, list[list[int]]] = (-1, [])

    def __getitem__(self, number: int) -> list[int]:
        passes, place = divmod(number, self._per_pass)
        if self._cached[0] != passes:
            self._cached = (passes, epoch_batches(self._lengths, self._batch_size, f"{self._key}:{passes}"))
        return self._cached[1][place]


class TrainingBatches:
    """The batches of an unlearning run: an epoch is one pass over the forget set, paired with endless retain batches.

    Attributes:
        forget_lengths, retain_lengths: the length of each item of the two training sets.
        steps_per_epoch: forget batches in one pass.
        probe: retain batches in an order of their own, for AutoLR.
    """

    def __init__(
        self, forget_lengths: Sequence[int], retain_lengths: Sequence[int], *, batch_size: int, seed: int
    ) -> None:
        self.forget_lengths, self.retain_lengths = forget_lengths, retain_lengths
        self.steps_per_epoch = -(-len(forget_lengths) // batch_size)
        self.probe = EndlessBatches(retain_lengths, batch_size, f"probe:{seed}")
        self._retain = EndlessBatches(retain_lengths, batch_size, f"retain:{seed}")
        self._batch_size, self._seed = batch_size, seed

    def epoch(self, epoch: float, *, step: int, max_steps: int | None) -> list[Pair]:
        """Return the batches after ``step`` steps and ``epoch`` epochs; fewer than a pass if ``max_steps`` ends it."""
        forget = epoch_batches(self.forget_lengths, self._batch_size, f"forget:{self._seed}:{epoch}")
        if max_steps is not None:
            forget = forget[: max_steps - step]
        return [(indices, self._retain[number]) for number, indices in enumerate(forget, start=step)]

    def passes(self, batches: Sequence[Pair]) -> float:
        """Return how many passes over the forget set these batches are."""
        return sum(len(forget) for forget, _ in batches) / len(self.forget_lengths)


def sorted_batches(lengths: Sequence[int], batch_size: int) -> list[list[int]]:
    """Return all items once, longest first: the least padding, and memory runs out at the first batch if it does."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    return [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
