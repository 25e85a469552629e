"""Texts that do not fit a model are refused with both numbers, and texts that fit are scored without an error."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM as Auto
from transformers import (
    CTRLConfig,
    FalconConfig,
    GPT2Config,
    GPT2LMHeadModel,
    GPTJConfig,
    LlamaConfig,
    OPTConfig,
    PreTrainedModel,
    RobertaConfig,
)

from trainables.data.examples import Example, Prompted, UnlearningData
from trainables.models.checkpoints import load_tokenizer, save_model
from trainables.models.shapes import position_limit
from trainables.scoring.fit import fit_problems
from trainables.text.scorer import TextScorer


def gpt2(tokenizer: Any, *, positions: int = 48, rows: int | None = None) -> PreTrainedModel:
    torch.manual_seed(0)
    sizes = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": positions, "vocab_size": rows or len(tokenizer)}
    eos = tokenizer.eos_token_id
    return GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=eos, eos_token_id=eos))


def longest(tokenizer: Any, data: UnlearningData) -> int:
    scorer = TextScorer(tokenizer=tokenizer, max_length=512, batch_size=8, device="cpu")
    choices = [
        Example(item.question, text)
        for item in data.full
        for text in (item.paraphrased_answer, *item.perturbed_answers)
    ]
    return max(map(len, scorer.encode([*data.full, *choices])))


def test_texts_with_more_tokens_than_the_model_has_positions_are_refused(
    tokenizer: Any, tiny_data: UnlearningData
) -> None:
    length = longest(tokenizer, tiny_data)
    model = gpt2(tokenizer, positions=length - 1)
    found = fit_problems(model, tokenizer, tiny_data, max_length=512)
    assert found == [
        f"--max-length 512: the longest text has {length} tokens, but the model has only {length - 1} positions; use "
        f"--max-length {length - 1}, which cuts longer texts, or a model with more positions"
    ]
    assert not fit_problems(model, tokenizer, tiny_data, max_length=length - 1)
    assert not fit_problems(gpt2(tokenizer, positions=length), tokenizer, tiny_data, max_length=512)
    (problem,) = fit_problems(gpt2(tokenizer, positions=4), tokenizer, tiny_data, max_length=512)
    assert problem.endswith("only 4 positions; use a model with more positions"), "no prompt would fit"


def test_prompts_that_leave_no_position_are_refused(tokenizer: Any, tiny_data: UnlearningData) -> None:
    prompts = (Prompted("Where is Oslo?", "In Norway", max_new_tokens=48),)
    found = fit_problems(gpt2(tokenizer), tokenizer, replace(tiny_data, prompted={"verbmem": prompts}), max_length=48)
    assert len(found) == 1
    assert "48 tokens" in found[0]
    assert "only 48 positions" in found[0]


@pytest.mark.parametrize(
    ("config", "limit"),
    [
        (GPT2Config(n_embd=8, n_head=2, n_layer=1, n_positions=40, vocab_size=9), 40),
        (GPTJConfig(n_embd=8, n_head=2, n_layer=1, n_positions=40, rotary_dim=2, vocab_size=9), 40),
        (CTRLConfig(n_embd=8, n_head=2, n_layer=1, n_positions=40, dff=8, vocab_size=9), 40),
        (
            OPTConfig(
                hidden_size=8,
                ffn_dim=8,
                num_attention_heads=2,
                num_hidden_layers=1,
                max_position_embeddings=40,
                vocab_size=9,
                word_embed_proj_dim=8,
            ),
            40,
        ),
        (
            RobertaConfig(
                hidden_size=8,
                intermediate_size=8,
                num_attention_heads=2,
                num_hidden_layers=1,
                max_position_embeddings=42,
                vocab_size=9,
                is_decoder=True,
            ),
            40,
        ),
        (
            LlamaConfig(
                hidden_size=8,
                intermediate_size=8,
                num_attention_heads=2,
                num_hidden_layers=1,
                max_position_embeddings=40,
                vocab_size=9,
            ),
            None,
        ),
        (FalconConfig(hidden_size=8, num_attention_heads=2, num_hidden_layers=1, alibi=True, vocab_size=9), None),
    ],
    ids=lambda value: getattr(value, "model_type", None),
)
def test_the_position_limit_is_the_longest_sequence_that_the_model_accepts(config: Any, limit: int | None) -> None:
    with torch.device("meta"):
        assert position_limit(Auto.from_config(config)) == limit
    model = Auto.from_config(config).eval()
    with torch.no_grad():
        model(input_ids=torch.full((1, limit or 60), 5))
        if limit is not None:
            with pytest.raises((IndexError, RuntimeError)):
                model(input_ids=torch.full((1, limit + 1), 5))


def test_a_token_outside_the_embedding_is_named_if_the_texts_use_it(tokenizer: Any, tiny_data: UnlearningData) -> None:
    rows = tokenizer("Question: Who? Where?").input_ids[-1]  # the ids of later tokens have no row
    found = fit_problems(gpt2(tokenizer, rows=rows), tokenizer, tiny_data, max_length=48)
    assert len(found) == 1
    assert f"embedding has {rows} rows" in found[0]
    assert f"{len(tokenizer)} tokens" in found[0]
    assert f"'{tokenizer.convert_ids_to_tokens(rows)}' (id {rows})" in found[0]


def test_a_padding_token_without_a_row_is_replaced_and_does_not_matter(
    tmp_path: Path, tokenizer: Any, tiny_data: UnlearningData
) -> None:
    model = gpt2(tokenizer)
    save_model(model, tokenizer, tmp_path)
    plain = load_tokenizer(tmp_path)
    padded = load_tokenizer(tmp_path)
    padded.add_special_tokens({"pad_token": "[PAD]"})
    padded.save_pretrained(tmp_path)
    padded = load_tokenizer(tmp_path)
    assert padded.pad_token_id == padded.eos_token_id
    assert not fit_problems(model, padded, tiny_data, max_length=48)
    scores = []
    for item in (plain, padded):
        scorer = TextScorer(tokenizer=item, max_length=48, batch_size=8, device="cpu")
        sequences = scorer.encode(tiny_data.full)
        losses = scorer.nll(model, sequences)
        texts = scorer.greedy_answers(model, sequences, losses, limits=[12] * len(sequences))
        scores.append((losses.totals.tolist(), texts))
    assert scores[0] == scores[1]


@pytest.mark.parametrize("batch_size", [1, 8])
def test_a_continuation_ends_at_the_last_position_and_does_not_depend_on_the_batch(
    batch_size: int, tokenizer: Any
) -> None:
    model = gpt2(tokenizer, positions=24)
    prompts = [tuple(tokenizer("Ada " * count).input_ids)[:23] for count in (1, 3, 6, 20)]
    scorer = TextScorer(tokenizer=tokenizer, max_length=24, batch_size=batch_size, device="cpu")
    for prompt, text in zip(prompts, scorer.generate(model, prompts, limits=[16] * 4), strict=True):
        ids = list(prompt)
        while len(ids) < min(24, len(prompt) + 16):
            with torch.no_grad():
                ids.append(int(model.eval()(input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
            if ids[-1] == tokenizer.eos_token_id:
                break
        assert text == tokenizer.decode(ids[len(prompt) :], skip_special_tokens=True)
