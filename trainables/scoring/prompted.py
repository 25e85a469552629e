"""Metrics with their own prompts. The greedy continuations of the prompts are compared with reference texts.

The data set defines the prompts. If a data set of plain texts has no prompts, the beginning of each text is a prompt.
The values differ from those of MUSE's code (arXiv:2407.06460), which reports F1 without stemming.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainables.data.examples import Example, Prompted, UnlearningData
from trainables.text.literal import encode_literally
from trainables.text.scorer import TextScorer

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

PREFIX_TOKENS, CONTINUATION_TOKENS = 50, 128
"""The maximum number of tokens in the prompt of a plain text, and the number of tokens to generate."""


@dataclass(frozen=True, slots=True)
class PromptedSet:
    """The prompts of one metric as token ids, the reference texts, and the stop strings of each continuation."""

    prompts: tuple[tuple[int, ...], ...]
    references: tuple[str, ...]
    max_new_tokens: int
    stop: tuple[tuple[str, ...], ...]

    def answers(self, model: PreTrainedModel, scorer: TextScorer) -> list[str]:
        """Return the greedy continuation of each prompt, up to its first stop string."""
        # If a prompt and its continuation do not fit into the context, the beginning of the prompt is cut off.
        prompts = list(self.prompts)
        context_length = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        if context_length is not None:
            max_prompt_tokens = max(1, context_length - self.max_new_tokens)
            prompts = [prompt[-max_prompt_tokens:] for prompt in prompts]
        texts = scorer.generate(model, prompts, limits=[self.max_new_tokens] * len(prompts))
        return [cut_at_stop(text, stop).strip() for text, stop in zip(texts, self.stop, strict=True)]


def prompted_sets(data: UnlearningData, tokenizer: PreTrainedTokenizerBase) -> dict[str, PromptedSet]:
    """Return the prompts of each metric that has its own prompts, by metric."""
    sources = {"verbmem": "verbmem", "knowmem": "knowmem_forget", "utility": "knowmem_retain"}
    sets = {
        metric: from_prompts(tokenizer, data.prompted[source])
        for metric, source in sources.items()
        if source in data.prompted
    }
    for metric, texts in (("verbmem", data.forget_eval), ("utility", data.retain_eval)):
        if metric not in sets and texts and texts[0].is_text:
            sets[metric] = from_texts(tokenizer, texts)
    return sets


def from_prompts(tokenizer: PreTrainedTokenizerBase, items: Sequence[Prompted]) -> PromptedSet:
    prompts, references = [], []
    for item in items:
        prompt_ids = encode_literally(tokenizer, item.prompt, add_special_tokens=True)
        prompts.append(_without_eos(tokenizer, prompt_ids))
        reference_ids = encode_literally(tokenizer, item.reference, add_special_tokens=False)
        fits = len(reference_ids) <= item.max_new_tokens
        references.append(item.reference if fits else tokenizer.decode(reference_ids[: item.max_new_tokens]))
    token_limit = max(item.max_new_tokens for item in items)
    return PromptedSet(tuple(prompts), tuple(references), token_limit, tuple(item.stop for item in items))


def from_texts(tokenizer: PreTrainedTokenizerBase, texts: Sequence[Example]) -> PromptedSet:
    """Return a prompted set in which each prompt is the beginning of a plain text.

    A prompt is the first 50 tokens of a text, but at most half of the text. The reference is the next 128 tokens.
    """
    prompts, references = [], []
    for example in texts:
        ids = _without_eos(tokenizer, encode_literally(tokenizer, example.answer, add_special_tokens=True))
        prompt_length = min(PREFIX_TOKENS, max(1, len(ids) // 2))
        prompts.append(ids[:prompt_length])
        references.append(tokenizer.decode(ids[prompt_length : prompt_length + CONTINUATION_TOKENS]))
    return PromptedSet(tuple(prompts), tuple(references), CONTINUATION_TOKENS, ((),) * len(prompts))


def cut_at_stop(text: str, stop: Sequence[str]) -> str:
    """Return the part of ``text`` before the first occurrence of any stop string."""
    positions = [text.find(stop_string) for stop_string in stop]
    end = min((position for position in positions if position >= 0), default=len(text))
    return text[:end]


def _without_eos(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> tuple[int, ...]:
    """Return the token ids without a final EOS, because the model would treat the text after EOS as a new sequence."""
    return tuple(ids[:-1] if ids and ids[-1] == tokenizer.eos_token_id else ids)
