"""The greedy answers of a batch equal the answers to each prompt alone, and end where the model ends them."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, MambaConfig, PhiConfig, PhiForCausalLM

from trainables.data.examples import UnlearningData
from trainables.models.adapters import add_adapter
from trainables.text.scorer import TextScorer, generation_batch_size
from trainables.text.tokens import encode_examples


def _by_hand(model: Any, tokenizer: Any, prompt: Sequence[int], limit: int) -> str:
    """Return the greedy continuation of one prompt, without a cache and without padding."""
    ids = list(prompt)
    with torch.no_grad():
        while len(ids) < len(prompt) + limit:
            following = int(model(input_ids=torch.tensor([ids])).logits[0, -1].argmax())
            if following == tokenizer.eos_token_id:
                break
            ids.append(following)
    return str(tokenizer.decode(ids[len(prompt) :], skip_special_tokens=True)).strip()


def _scorer(tokenizer: Any, batch_size: int) -> TextScorer:
    return TextScorer(tokenizer=tokenizer, max_length=64, batch_size=batch_size, device="cpu")


OWN_SETTINGS = {
    "do_sample": True,
    "temperature": 5.0,
    "num_beams": 3,
    "repetition_penalty": 1.5,
    "no_repeat_ngram_size": 1,
    "suppress_tokens": list(range(2, 200)),
    "begin_suppress_tokens": list(range(200, 400)),
    "bad_words_ids": [[token] for token in range(400, 500)],
    "sequence_bias": [[[3], 50.0]],
    "forced_bos_token_id": 7,
    "forced_eos_token_id": 9,
    "exponential_decay_length_penalty": [1, 1.5],
    "guidance_scale": 2.0,
    "min_new_tokens": 5,
    "min_length": 60,
    "max_length": 3,
    "eos_token_id": 5,
    "stop_strings": ["e"],
}
"""Values in a generation_config.json that would change the generated tokens."""


def test_generation_is_greedy_and_ends_after_max_new_tokens_whatever_the_models_settings(
    make_network: Any, tokenizer: Any, tiny_data: UnlearningData
) -> None:
    known = [item.prompt for item in encode_examples(tokenizer, tiny_data.full, max_length=64)]
    prompts = [*known, *(tuple(tokenizer(text).input_ids) for text in ("Ada", "Question: Who lives in Oslo, Bo?"))]
    model = make_network(seed=3)
    for name, value in OWN_SETTINGS.items():
        setattr(model.generation_config, name, value)
    for limit in (1, 5):
        texts = _scorer(tokenizer, 8).generate(model, prompts, limits=[limit] * len(prompts))
        assert [text.strip() for text in texts] == [_by_hand(model, tokenizer, prompt, limit) for prompt in prompts]


def test_the_settings_of_a_model_with_an_adapter_are_not_used_and_not_changed(
    make_network: Any, tokenizer: Any, tiny_data: UnlearningData
) -> None:
    model = add_adapter(make_network(seed=3), rank=2, seed=0)
    prompts = [item.prompt for item in encode_examples(tokenizer, tiny_data.forget, max_length=64)]
    expected = _scorer(tokenizer, 8).generate(model, prompts, limits=[8] * len(prompts))
    model.generation_config.no_repeat_ngram_size = 1
    assert _scorer(tokenizer, 8).generate(model, prompts, limits=[8] * len(prompts)) == expected
    assert model.generation_config.no_repeat_ngram_size == 1


@pytest.mark.parametrize("network", ["known_network", "half_known", "random"])
def test_answers_verified_against_the_references_are_those_generated_token_by_token(
    network: str,
    request: pytest.FixtureRequest,
    make_network: Any,
    tokenizer: Any,
    tiny_data: UnlearningData,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two right tokens suffice for the rest of a reference to be verified again."""
    monkeypatch.setattr("trainables.text.scorer._MIN_VERIFIED", 2)
    model = make_network(seed=3) if network == "random" else request.getfixturevalue(network)
    scorer = _scorer(tokenizer, 8)
    sequences = scorer.encode(tiny_data.full)
    found = scorer.greedy_answers(model, sequences, scorer.nll(model, sequences), limits=[16] * len(sequences))
    assert found == [_by_hand(model, tokenizer, item.prompt, 16) for item in sequences]


def test_verified_answers_are_not_generated(
    known_network: PhiForCausalLM, tokenizer: Any, tiny_data: UnlearningData, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = _scorer(tokenizer, 8)
    sequences = scorer.encode(tiny_data.full)
    losses = scorer.nll(known_network, sequences)
    monkeypatch.setattr(known_network, "forward", None)  # any further pass would fail
    found = scorer.greedy_answers(known_network, sequences, losses, limits=[64] * len(sequences))
    assert found == [example.answer for example in tiny_data.full]


def _sized(layers: int, width: int, kind: Any = PhiConfig, **heads: int) -> Any:
    sizes = {"hidden_size": 32 * width, "num_hidden_layers": layers, "num_attention_heads": 32, **heads}
    return kind(vocab_size=51_200, **sizes)


@pytest.mark.parametrize(
    ("config", "longest", "rows"),
    [
        (_sized(24, 64), 100, 8),  # Phi-1.5: a position's logits, 614 kB, against twice its keys and values, 786 kB
        (_sized(6, 64), 100, 24),  # against 197
        (_sized(6, 8), 100, 32),  # never more than four times as many
        (_sized(6, 8), 200, 16),  # 512 tokens a row may be scored, but 200 are put through
        (_sized(6, 64, LlamaConfig, num_key_value_heads=4), 100, 32),  # shared keys and values count once
        (MambaConfig(), 10, 8),  # no attention, so no keys and values
    ],
)
def test_the_batch_size_of_generation_is_limited_by_the_memory_of_scoring(config: Any, longest: int, rows: int) -> None:
    model: Any = SimpleNamespace(config=config, dtype=torch.float32)
    assert generation_batch_size(model, 8, longest=longest, max_length=512) == rows
