"""Greedy continuations of many prompts at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainables.batches import sorted_batches
from trainables.predictions import scoring
from trainables.text.tokens import pad_id

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def generate_greedy(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int,
    batch_size: int,
    device: torch.device | str,
    strip: bool = True,
) -> list[str]:
    """The greedy continuation of each prompt as text, in order, without special tokens, stripped unless told not to.

    Prompts are left-padded in batches of similar length and generation stops at EOS or after ``max_new_tokens``.
    """
    import torch

    padding = pad_id(tokenizer)
    texts = [""] * len(prompts)
    with scoring(model):
        for indices in sorted_batches([len(prompt) for prompt in prompts], batch_size):
            width = max(len(prompts[index]) for index in indices)
            ids = torch.full((len(indices), width), padding, dtype=torch.long)
            mask = torch.zeros_like(ids)
            for row, index in enumerate(indices):
                ids[row, width - len(prompts[index]) :] = torch.tensor(prompts[index], dtype=torch.long)
                mask[row, width - len(prompts[index]) :] = 1
            output = model.generate(
                input_ids=ids.to(device),
                attention_mask=mask.to(device),
                max_new_tokens=max_new_tokens,
                do_sample=False,
                num_beams=1,
                repetition_penalty=1.0,  # some models ship another one in their generation config
                use_cache=True,
                pad_token_id=padding,
                eos_token_id=tokenizer.eos_token_id,
            )
            decoded = tokenizer.batch_decode(output[:, width:], skip_special_tokens=True)
            for index, text in zip(indices, decoded, strict=True):
                texts[index] = text.strip() if strip else text
    return texts
