"""The losses of sequences are those of all logits in float64, in any batch and with any padding."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from trainables.data.examples import Example
from trainables.models.tiny import TINY_MODELS, VOCABULARY, make_tiny, tokenizer_for
from trainables.predictions import mean_loss
from trainables.text.losses import predict
from trainables.text.tokens import Tokens, collate


def _sequences() -> list[Tokens]:
    """Return unsorted sequences of 4 to 40 tokens (more than tiny-mistral's window) with prompts of 2 to 12 tokens."""
    generator = torch.Generator().manual_seed(3)
    shapes = [(9, 4), (40, 12), (4, 2), (16, 9), (11, 10), (40, 3), (7, 5)]
    ids = [torch.randint(2, VOCABULARY, (length,), generator=generator).tolist() for length, _ in shapes]
    return [Tokens(tuple(row), prompt) for row, (_, prompt) in zip(ids, shapes, strict=True)]


SEQUENCES = _sequences()


@pytest.fixture(scope="module", params=TINY_MODELS)
def model(request: pytest.FixtureRequest) -> Any:
    made = make_tiny(request.param, tokenizer_for(request.param, [Example("?", "x")])).eval()
    # A network with fresh weights guesses almost uniformly, which would hide a shift by one token.
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(3.0)
    return made


def test_losses_logits_and_gradients_are_those_of_each_sequence_alone_in_float64(model: Any) -> None:
    """All tokens have the same weight, so a long answer counts more than a short answer (SCIENCE.md)."""
    precise = copy.deepcopy(model).double()
    terms, scores = [], []
    for tokens in SEQUENCES:
        logits = precise(input_ids=torch.tensor([tokens.ids])).logits[0, tokens.prompt_length - 1 : -1]
        ids = torch.tensor(tokens.ids[tokens.prompt_length :])
        terms.append(-torch.log_softmax(logits, dim=-1)[torch.arange(len(ids)), ids])
        scores.append(logits)
    expected = torch.autograd.grad(torch.cat(terms).mean(), list(precise.parameters()))
    batch = collate(SEQUENCES, range(len(SEQUENCES)), pad_id=1, device="cpu")
    predicted = predict(model, batch)
    nll, supervised = predicted.nll, predicted.supervised
    assert nll.shape == predicted.labels.shape == supervised.shape == predicted.logits.shape[:2]
    assert nll.shape[1] < batch.input_ids.shape[1] - 1, "positions in the prompt of every row have no logits"
    assert nll.dtype == torch.float32
    assert not nll[~supervised].any()
    torch.testing.assert_close(nll[supervised].double(), torch.cat(terms), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(predicted.logits[supervised].double(), torch.cat(scores), rtol=1e-3, atol=1e-4)
    found = torch.autograd.grad(mean_loss(nll, supervised), list(model.parameters()))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-3, atol=1e-5 * float(other.abs().max() + 1e-3))


def test_the_vocabulary_wide_logits_are_made_once_and_never_copied(make_network: Any) -> None:
    sequences = [Tokens(tuple(range(20)), 4), Tokens(tuple(range(9)), 5)]
    batch, model = collate(sequences, [0, 1], pad_id=0, device="cpu"), make_network()
    size = len(batch.labels) * (batch.labels.shape[1] - batch.prompt_length) * model.config.vocab_size
    copying = {torch.ops.aten.clone.default, torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default}

    class Copies(TorchDispatchMode):
        found = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            made = func(*args, **(kwargs or {}))
            self.found += func in copying and made.numel() >= size
            return made

    with Copies() as copies:
        predict(model, batch).nll.sum().backward()
    assert copies.found == 0
