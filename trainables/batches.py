"""Group examples of similar length into batches, to save padding. Equal arguments always give equal batches."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

Pair = tuple[list[int], list[int]]
"""A step's forget batch and retain batch, as indices into the two sets."""


def epoch_batches(lengths: Sequence[int], batch_size: int, key: str) -> list[list[int]]:
    """Return batches in random order, as lists of indices. Each index is in exactly one batch.

    Args:
        lengths: the lengths of the examples. Examples of similar length share a batch.
        key: the seed.
    """
    rng = random.Random(key)
    order = list(range(len(lengths)))
    rng.shuffle(order)
    window = 50 * batch_size
    batches: list[list[int]] = []
    for window_start in range(0, len(order), window):
        chunk = order[window_start : window_start + window]
        # The lengths are varied by up to 4%, so that each pass groups the examples differently.
        varied_lengths = {i: lengths[i] * rng.uniform(0.96, 1.04) for i in chunk}
        chunk.sort(key=varied_lengths.__getitem__)
        batches += [chunk[start : start + batch_size] for start in range(0, len(chunk), batch_size)]
    rng.shuffle(batches)
    return batches


class EndlessBatches:
    """An endless sequence of batches, from repeated passes over a set. Examples of similar length share a batch.

    ``batches[n]`` lists the indices of the examples in batch ``n``. Each pass has its own order. The indices depend
    only on the lengths of the examples, the batch size, ``key`` and ``n``.
    """

    def __init__(self, lengths: Sequence[int], batch_size: int, key: str) -> None:
        self._lengths = lengths
        self._batch_size = batch_size
        self._key = key
        self._batches_per_pass = math.ceil(len(lengths) / batch_size)
        self._cached_pass = -1
        self._cached_batches: list[list[int]] = []

    def __getitem__(self, number: int) -> list[int]:
        pass_number, position = divmod(number, self._batches_per_pass)
        if self._cached_pass != pass_number:
            self._cached_batches = epoch_batches(self._lengths, self._batch_size, f"{self._key}:{pass_number}")
            self._cached_pass = pass_number
        return self._cached_batches[position]


class TrainingBatches:
    """The batches of an unlearning run. Each step uses a forget batch and a retain batch.

    Attributes:
        steps_per_epoch: the number of forget batches in one epoch, which is one pass over the forget set.
        probe: the retain batches on which AutoLR measures losses, shuffled independently of the training batches.
    """

    def __init__(
        self, forget_lengths: Sequence[int], retain_lengths: Sequence[int], *, batch_size: int, seed: int
    ) -> None:
        self._lengths = forget_lengths
        self._batch_size = batch_size
        self._seed = seed
        self.steps_per_epoch = math.ceil(len(forget_lengths) / batch_size)
        self.probe = EndlessBatches(retain_lengths, batch_size, f"probe:{seed}")
        self._retain = EndlessBatches(retain_lengths, batch_size, f"retain:{seed}")

    def epoch(self, epoch: float, *, step: int, max_steps: int | None) -> list[Pair]:
        """Return the batches of the next epoch. The epoch is cut short if the run reaches ``max_steps`` steps.

        ``epoch`` and ``step`` are the numbers of epochs and steps that the run has completed.
        """
        forget_batches = epoch_batches(self._lengths, self._batch_size, f"forget:{self._seed}:{epoch}")
        if max_steps is not None:
            forget_batches = forget_batches[: max_steps - step]
        return [(indices, self._retain[number]) for number, indices in enumerate(forget_batches, start=step)]

    def passes(self, batches: Sequence[Pair]) -> float:
        """Return the number of forget examples in the batches, divided by the size of the forget set."""
        return sum(len(forget) for forget, _ in batches) / len(self._lengths)


def sorted_batches(lengths: Sequence[int], batch_size: int) -> list[list[int]]:
    """Return batches of indices, sorted from the longest example to the shortest.

    The first batch needs the most memory.
    """
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    return [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
