"""Samples follow the model's distribution, and equal beginnings are computed once."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    MambaConfig,
    MambaForCausalLM,
    PhiForCausalLM,
)

from trainables.data.examples import UnlearningData
from trainables.models.adapters import add_adapter
from trainables.text.sampling import Sampler
from trainables.text.scorer import TextScorer
from trainables.text.tokens import encode_examples

N, SEED = 5, 7


def _sampler(model: Any, tokenizer: Any, *, batch_size: int, context_length: int = 1000) -> Sampler:
    return Sampler(
        model=model.eval(),
        ends=[tokenizer.eos_token_id],
        pad_id=tokenizer.pad_token_id,
        batch_size=batch_size,
        context_length=context_length,
    )


def _by_hand(
    model: Any, prompts: Sequence[Sequence[int]], limits: Sequence[int], end: int
) -> list[list[tuple[int, ...]]]:
    """Return the samples of inverse transform sampling, computed one after another without a cache and padding."""
    numbers = torch.rand(
        (len(prompts) * N, max(limits)), dtype=torch.float64, generator=torch.Generator().manual_seed(SEED)
    )
    samples = []
    for row, uniforms in enumerate(numbers.tolist()):
        prompt, tokens = prompts[row // N], []
        for u in uniforms[: limits[row // N]]:
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([[*prompt, *tokens]])).logits[0, -1]
            cumulative = logits.softmax(dim=0).double().cumsum(dim=0)
            tokens.append(int((cumulative <= u * cumulative[-1]).sum()))
            if tokens[-1] == end:
                break
        samples.append(tuple(tokens))
    return [samples[start : start + N] for start in range(0, len(samples), N)]


def _prompts(tokenizer: Any, data: UnlearningData) -> list[tuple[int, ...]]:
    known = [item.prompt for item in encode_examples(tokenizer, data.forget, max_length=64)]
    return [*known, tuple(tokenizer("Ada").input_ids)]


@pytest.mark.parametrize("batch_size", [2, 4, 100])
@pytest.mark.parametrize("network", ["known_network", "half_known"])
def test_samples_equal_those_of_a_calculation_by_hand_for_each_batch_size(
    network: str, batch_size: int, request: pytest.FixtureRequest, tokenizer: Any, tiny_data: UnlearningData
) -> None:
    model, prompts = request.getfixturevalue(network), _prompts(tokenizer, tiny_data)
    limits = [3 + index % 6 for index in range(len(prompts))]
    found = _sampler(model, tokenizer, batch_size=batch_size).sample(prompts, n=N, limits=limits, seed=SEED)
    assert found == _by_hand(model, prompts, limits, tokenizer.eos_token_id)


def test_models_with_learned_positions_alibi_states_or_an_adapter_are_sampled(
    make_network: Any, tokenizer: Any, tiny_data: UnlearningData
) -> None:
    size = len(tokenizer)
    torch.manual_seed(0)
    models = [
        GPT2LMHeadModel(GPT2Config(vocab_size=size, n_positions=40, n_embd=16, n_layer=2, n_head=2)),
        BloomForCausalLM(BloomConfig(vocab_size=size, hidden_size=16, n_layer=2, n_head=2)),
        MambaForCausalLM(MambaConfig(vocab_size=size, hidden_size=16, num_hidden_layers=2, state_size=4)),
        add_adapter(make_network(seed=3), rank=2, seed=0),
    ]
    prompts = _prompts(tokenizer, tiny_data)[:-1]  # of equal length, because padding changes the states of Mamba
    for model in models:
        found = _sampler(model, tokenizer, batch_size=8).sample(prompts, n=N, limits=[6] * len(prompts), seed=SEED)
        assert found == _by_hand(model, prompts, [6] * len(prompts), tokenizer.eos_token_id), type(model).__name__


def test_short_prompts_continue_when_the_longest_of_the_batch_has_filled_the_context(
    make_network: Any, tokenizer: Any, tiny_data: UnlearningData
) -> None:
    prompts = _prompts(tokenizer, tiny_data)
    context = max(map(len, prompts)) + 2
    limits = [context - len(prompt) for prompt in prompts]
    assert limits[-1] > max(limits[:-1])
    model = make_network(seed=3)
    sampler = _sampler(model, tokenizer, batch_size=100, context_length=context)
    assert sampler.sample(prompts, n=N, limits=limits, seed=SEED) == _by_hand(
        model, prompts, limits, tokenizer.eos_token_id
    )


def test_equal_beginnings_of_samples_are_computed_once(
    known_network: PhiForCausalLM, tokenizer: Any, tiny_data: UnlearningData
) -> None:
    """Each row that passes through the network is another beginning, and no beginning is missing."""
    prompts, rows = _prompts(tokenizer, tiny_data)[:-1], []
    hook = known_network.register_forward_pre_hook(
        lambda module, args, options: rows.append(len(options["input_ids"])), with_kwargs=True
    )
    with hook:
        sampler = _sampler(known_network, tokenizer, batch_size=100)
        samples = sampler.sample(prompts, n=50, limits=[8] * len(prompts), seed=0)
    beginnings = {
        (index, sample[:size]) for index, own in enumerate(samples) for sample in own for size in range(len(sample))
    }
    assert sum(rows) == len(beginnings)
    assert len(beginnings) < 0.3 * sum(len(sample) for own in samples for sample in own)


def test_sampled_answers_have_the_frequencies_of_the_models_distribution(
    tokenizer: Any, known_network: PhiForCausalLM
) -> None:
    """Each of the frequent first tokens lies within four standard deviations of its probability at temperature 1."""
    flat, count = copy.deepcopy(known_network), 2000
    with torch.no_grad():
        for parameter in flat.lm_head.parameters():
            parameter.mul_(0.2)
        prompt = tokenizer("Where does Ada live?").input_ids
        probabilities = flat(torch.tensor([prompt])).logits[0, -1].softmax(dim=0)
    flat.generation_config.top_k = 2  # a model's own settings are not used
    scorer = TextScorer(tokenizer=tokenizer, max_length=64, batch_size=500, device="cpu")
    (answers,) = scorer.sampled_answers(flat, [prompt], n=count, limits=[1], seed=0)
    texts = Counter(answers)
    for p, token in zip(*(item.tolist() for item in probabilities.topk(5)), strict=True):
        assert texts[tokenizer.decode([token])] / count == pytest.approx(p, abs=4 * (p * (1 - p) / count) ** 0.5)
    assert len(texts) > 60, "the sampled tokens are not cut at the likeliest"
