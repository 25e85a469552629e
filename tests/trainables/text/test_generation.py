"""Greedy answers of a batch are those of each prompt by itself, and stop where the model stops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from transformers import PhiForCausalLM

from trainables.data.examples import UnlearningData
from trainables.scoring.text_scorer import TextScorer
from trainables.text.generation import generate_greedy
from trainables.text.tokens import encode_examples


def _by_hand(model: Any, tokenizer: Any, prompt: Sequence[int], limit: int) -> str:
    """One prompt, no cache, no padding: the likeliest token again and again."""
    ids = list(prompt)
    with torch.no_grad():
        while len(ids) < len(prompt) + limit:
            following = int(model(input_ids=torch.tensor([ids])).logits[0, -1].argmax())
            if following == tokenizer.eos_token_id:
                break
            ids.append(following)
    return str(tokenizer.decode(ids[len(prompt) :], skip_special_tokens=True)).strip()


@pytest.fixture(scope="module")
def prompts(tokenizer: Any, tiny_data: UnlearningData) -> list[tuple[int, ...]]:
    """Of different lengths, the known questions among them."""
    known = [item.prompt for item in encode_examples(tokenizer, tiny_data.full, max_length=64)]
    others = [
        tuple(tokenizer(text).input_ids) for text in ("Ada", "Question: What", "Question: Who lives in Oslo, Bo?")
    ]
    return [*known[:5], *others, *known[5:]]


def _generate(model: Any, tokenizer: Any, prompts: Any, *, limit: int, batch_size: int) -> list[str]:
    return generate_greedy(model, tokenizer, prompts, max_new_tokens=limit, batch_size=batch_size, device="cpu")


@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_a_batch_says_what_each_prompt_says_alone(
    known_network: PhiForCausalLM, tokenizer: Any, prompts: list[tuple[int, ...]], batch_size: int
) -> None:
    alone = [_by_hand(known_network, tokenizer, prompt, 12) for prompt in prompts]
    assert _generate(known_network, tokenizer, prompts, limit=12, batch_size=batch_size) == alone
    assert len(set(alone)) > 10


def test_a_network_that_knows_the_answers_gives_them_and_stops(
    known_network: PhiForCausalLM, tokenizer: Any, tiny_data: UnlearningData
) -> None:
    known = [item.prompt for item in encode_examples(tokenizer, tiny_data.full, max_length=64)]
    answers = _generate(known_network, tokenizer, known, limit=60, batch_size=16)
    assert answers == [example.answer for example in tiny_data.full]


def test_generation_ends_after_max_new_tokens(make_network: Any, tokenizer: Any, prompts: Any) -> None:
    model = make_network(seed=3)
    for limit in (1, 5):
        found = _generate(model, tokenizer, prompts, limit=limit, batch_size=8)
        assert found == [_by_hand(model, tokenizer, prompt, limit) for prompt in prompts]


def test_dropout_is_off_and_the_mode_is_left_as_it_was(make_network: Any, tokenizer: Any, prompts: Any) -> None:
    model = make_network(seed=3, resid_pdrop=0.5)
    for training in (True, False):
        model.train(training)
        torch.manual_seed(1)
        first = _generate(model, tokenizer, prompts, limit=4, batch_size=8)
        torch.manual_seed(2)
        assert _generate(model, tokenizer, prompts, limit=4, batch_size=8) == first
        assert model.training is training


def test_a_model_whose_own_settings_sample_is_made_to_be_greedy(
    make_network: Any, tokenizer: Any, prompts: list[tuple[int, ...]]
) -> None:
    model = make_network(seed=3)
    model.generation_config.do_sample = True
    model.generation_config.temperature = 5.0
    found = _generate(model, tokenizer, prompts, limit=4, batch_size=8)
    assert found == [_by_hand(model, tokenizer, prompt, 4) for prompt in prompts]


@pytest.mark.parametrize("network", ["known_network", "half_known", "random"])
def test_answers_verified_against_the_references_are_those_generated_token_by_token(
    network: str, request: pytest.FixtureRequest, make_network: Any, tokenizer: Any, tiny_data: UnlearningData
) -> None:
    model = make_network(seed=3) if network == "random" else request.getfixturevalue(network)
    scorer = TextScorer(tokenizer=tokenizer, max_length=64, batch_size=8, device="cpu")
    sequences = scorer.encode(tiny_data.full)
    found = scorer.greedy_answers(model, sequences, scorer.nll(model, sequences), max_new_tokens=40)
    assert found == [_by_hand(model, tokenizer, item.prompt, 40) for item in sequences]


def test_what_is_verified_is_not_generated(
    known_network: PhiForCausalLM, tokenizer: Any, tiny_data: UnlearningData, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = TextScorer(tokenizer=tokenizer, max_length=64, batch_size=8, device="cpu")
    sequences = scorer.encode(tiny_data.full)
    losses = scorer.nll(known_network, sequences)
    monkeypatch.setattr(known_network, "forward", None)  # any further pass would fail
    found = scorer.greedy_answers(known_network, sequences, losses, max_new_tokens=64)
    assert found == [example.answer for example in tiny_data.full]
