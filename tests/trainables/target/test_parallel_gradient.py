"""A batch that threads share has the gradient and the loss of the whole batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch

from trainables.target.parallel_gradient import parallel_gradient

BATCH = range(8)


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def gradient(model: Any, batch_size: int = len(BATCH)) -> tuple[float, list[torch.Tensor], list[list[int]]]:
    """Return the loss, the gradients and the parts of a batch whose loss is a mean over positions."""
    ids = torch.arange(len(BATCH) * 6).view(len(BATCH), 6) % 40
    parts: list[list[int]] = []

    def loss(replica: Any, part: Sequence[int]) -> torch.Tensor:
        parts.append(list(part))
        logits = replica(input_ids=ids[list(part)]).logits[:, :-1]
        labels = ids[list(part), 1:]
        total: torch.Tensor = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")
        return total / (5 * len(BATCH))

    model.zero_grad()
    with parallel_gradient(model, batch_size=batch_size) as backward:
        value = backward(loss, BATCH)
    return value, [parameter.grad for parameter in model.parameters()], sorted(parts)


def test_two_threads_give_the_gradient_of_the_whole_batch(make_network: Callable[..., Any]) -> None:
    model = make_network()
    whole, expected, one = gradient(model, batch_size=4)
    shared, found, two = gradient(model)
    assert (one, two) == ([[*BATCH]], [[0, 2, 4, 6], [1, 3, 5, 7]])
    assert shared == pytest.approx(whole, rel=1e-6)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-7)
    again = gradient(model)[1]
    assert all(torch.equal(one, other) for one, other in zip(found, again, strict=True)), "reproducible"
    assert torch.get_num_threads() == 2


def test_dropout_is_not_split(make_network: Callable[..., Any]) -> None:
    assert gradient(make_network(resid_pdrop=0.1))[2] == [[*BATCH]]
