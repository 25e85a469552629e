"""The loss of a sequence is that of all its logits in float64, in any batch and with any padding."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PhiConfig, PhiForCausalLM

from trainables.predictions import mean_loss
from trainables.text import losses
from trainables.text.losses import predict, sequence_nll
from trainables.text.tokens import Batch, Tokens, collate

VOCABULARY = 97
SIZES = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}


def _sequences() -> list[Tokens]:
    """Lengths 4 to 23, prompts of 1 to 12 tokens, in no order."""
    generator = torch.Generator().manual_seed(3)
    shapes = [(9, 4), (23, 12), (4, 1), (16, 9), (11, 10), (23, 3), (7, 5)]
    ids = [torch.randint(2, VOCABULARY, (length,), generator=generator).tolist() for length, _ in shapes]
    return [Tokens(tuple(row), prompt) for row, (_, prompt) in zip(ids, shapes, strict=True)]


SEQUENCES = _sequences()


def network(kind: str) -> Any:
    """A small network; GPT-2 has absolute positions and tied embeddings."""
    if kind == "gpt2":
        return GPT2LMHeadModel(GPT2Config(**SIZES, n_positions=64, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
    config, model = (PhiConfig, PhiForCausalLM) if kind == "phi" else (LlamaConfig, LlamaForCausalLM)
    return model(config(**SIZES, intermediate_size=48, max_position_embeddings=64))


@pytest.fixture(scope="module", params=["phi", "gpt2", "llama"])
def model(request: pytest.FixtureRequest) -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = network(request.param)
    # Freshly initialised networks guess almost uniformly, which would hide a shift by one token.
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(4.0)
    return made


def _batch(indices: list[int]) -> Batch:
    return collate(SEQUENCES, indices, pad_id=1, device="cpu")


def test_the_loss_of_every_token_is_that_of_all_logits_in_float64_and_all_tokens_weigh_the_same(
    model: Any, exact_nll: Any
) -> None:
    """Tokens weigh the same, not sequences: a long answer counts more than a short one (SCIENCE.md)."""
    predicted = predict(model, _batch(list(range(len(SEQUENCES)))))
    nll, supervised = predicted.nll, predicted.supervised
    exact = [exact_nll(model, tokens) for tokens in SEQUENCES]
    for row, expected in enumerate(exact):
        torch.testing.assert_close(nll[row][supervised[row]].double(), expected, rtol=2e-5, atol=2e-5)
    assert nll.dtype == torch.float32
    assert float(nll.detach()[~supervised].abs().max()) == 0.0
    assert float(mean_loss(nll, supervised)) == pytest.approx(float(torch.cat(exact).mean()), rel=1e-5)


@pytest.mark.parametrize("keeps", [True, False], ids=["logits to keep", "all logits"])
def test_predictions_and_gradients_are_those_of_all_logits(
    model: Any, keeps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(losses, "_keeps_logits", lambda forward: keeps)
    precise = copy.deepcopy(model).double()
    terms, scores = [], []
    for tokens in SEQUENCES:
        logits = precise(input_ids=torch.tensor([tokens.ids])).logits[0, tokens.prompt_length - 1 : -1].double()
        ids = torch.tensor(tokens.ids[tokens.prompt_length :])
        terms.append(-torch.log_softmax(logits, dim=-1)[torch.arange(len(ids)), ids])
        scores.append(logits)
    expected = torch.autograd.grad(torch.cat(terms).mean(), list(precise.parameters()))
    predicted = predict(model, _batch(list(range(len(SEQUENCES)))))
    assert predicted.nll.shape == predicted.labels.shape == predicted.supervised.shape == predicted.logits.shape[:2]
    torch.testing.assert_close(predicted.logits[predicted.supervised].double(), torch.cat(scores), rtol=1e-4, atol=1e-4)
    found = torch.autograd.grad(mean_loss(predicted.nll, predicted.supervised), list(model.parameters()))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-3, atol=1e-5 * float(other.abs().max() + 1e-3))


@pytest.mark.parametrize("batch_size", [1, 3, 100])
def test_sums_and_counts_per_sequence_come_in_the_order_given(model: Any, exact_nll: Any, batch_size: int) -> None:
    totals, capped, counts, *_ = sequence_nll(model, SEQUENCES, pad_id=1, batch_size=batch_size, device="cpu")
    assert counts.tolist() == [len(tokens) - tokens.prompt_length for tokens in SEQUENCES]
    exact = [exact_nll(model, tokens) for tokens in SEQUENCES]
    assert totals == pytest.approx([float(nll.sum()) for nll in exact], rel=2e-5)
    at_most_a_guess = [float(nll.clamp(max=math.log(VOCABULARY)).sum()) for nll in exact]
    assert capped == pytest.approx(at_most_a_guess, rel=2e-5)
    assert (capped < totals).any(), "no token is above a random guess: the cap is not tested"
    assert (capped <= totals).all()
    assert (capped <= counts * math.log(VOCABULARY) * (1 + 1e-12)).all()


def test_the_vocabulary_wide_logits_are_made_once_and_never_copied() -> None:
    batch = collate(SEQUENCES, [0, 1], pad_id=0, device="cpu")
    model = network("llama")
    size = len(batch.labels) * (batch.labels.shape[1] - batch.prompt_length) * VOCABULARY
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


def test_the_agreement_of_a_model_with_a_sequence_is_that_of_its_greedy_tokens() -> None:
    torch.manual_seed(2)
    model = network("phi").eval()
    answers = []
    for item in SEQUENCES:  # the first tokens are the model's own, so that it agrees with some
        ids = list(item.ids[: item.prompt_length])
        for _ in range(min(3, len(item) - item.prompt_length)):
            ids.append(int(model(input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
        answers.append(Tokens((*ids, *item.ids[len(ids) :]), item.prompt_length))
    found = sequence_nll(model, answers, pad_id=0, batch_size=3, device="cpu")
    assert found.agreed is not None
    assert found.instead is not None
    for item, agreed, instead in zip(answers, found.agreed, found.instead, strict=True):
        choices = model(input_ids=torch.tensor([item.ids])).logits[0].argmax(dim=-1).tolist()
        pairs = list(zip(choices[item.prompt_length - 1 :], item.ids[item.prompt_length :], strict=False))
        first = next((at for at, (choice, token) in enumerate(pairs) if choice != token), None)
        assert agreed == (len(pairs) if first is None else first)
        assert instead == (-1 if first is None else pairs[first][0])
    assert set(found.agreed) >= {1, 3}
