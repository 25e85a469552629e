"""Metrics with their own prompts. The greedy continuations of the prompts are compared with reference texts.

The data set defines the prompts. If a data set of plain texts has no prompts, the beginning of each text is a prompt.
The values differ from those of MUSE's code (arXiv:2407.06460), which reports F1 without stemming.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainables.data.examples import Example, Prompted, UnlearningData
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
        context = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        room = max(1, context - self.max_new_tokens) if context is not None else None
        prompts = [prompt if room is None else prompt[-room:] for prompt in self.prompts]
        texts = scorer.generate(model, prompts, max_new_tokens=self.max_new_tokens)
        return [until(text, stop).strip() for text, stop in zip(texts, self.stop, strict=True)]


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
        prompts.append(_without_eos(tokenizer, tokenizer(item.prompt, add_special_tokens=True)["input_ids"]))
        ids = tokenizer(item.reference, add_special_tokens=False)["input_ids"]
        whole = len(ids) <= item.max_new_tokens
        references.append(item.reference if whole else tokenizer.decode(ids[: item.max_new_tokens]))
    longest = max(item.max_new_tokens for item in items)
    return PromptedSet(tuple(prompts), tuple(references), longest, tuple(item.stop for item in items))


def from_texts(tokenizer: PreTrainedTokenizerBase, texts: Sequence[Example]) -> PromptedSet:
    """Return a prompted set in which each prompt is the beginning of a plain text.

    A prompt is the first 50 tokens of a text, but at most half of the text. The reference is the next 128 tokens.
    """
    prompts, references = [], []
    for example in texts:
        ids = _without_eos(tokenizer, tokenizer(example.answer, add_special_tokens=True, verbose=False)["input_ids"])
        given = min(PREFIX_TOKENS, max(1, len(ids) // 2))
        prompts.append(ids[:given])
        references.append(tokenizer.decode(ids[given : given + CONTINUATION_TOKENS]))
    return PromptedSet(tuple(prompts), tuple(references), CONTINUATION_TOKENS, ((),) * len(prompts))


def until(text: str, stop: Sequence[str]) -> str:
    """Return the part of ``text`` before the first occurrence of any stop string."""
    return text[: min((place for item in stop if (place := text.find(item)) >= 0), default=len(text))]


def _without_eos(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> tuple[int, ...]:
    """Return the token ids without a final EOS, because the model would treat the text after EOS as a new sequence."""
    return tuple(ids[:-1] if ids and ids[-1] == tokenizer.eos_token_id else ids)
