"""Metrics by generation from the data set's own prompts: greedy continuations compared with their references.

MUSE (arXiv:2407.06460) gives passages to continue (verbmem) and questions after answered ones (knowmem). For a plain
text, the prompt is its beginning. All are scored by ROUGE-L recall; MUSE's code reports F1 without stemming, so its
values differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainables.data.examples import Example, Prompted, UnlearningData
from trainables.scoring.text_scorer import TextScorer

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

PREFIX_TOKENS, CONTINUATION_TOKENS = 50, 128
"""For a plain text: the tokens of its beginning in the prompt (at most half of it), and those to generate."""


@dataclass(frozen=True, slots=True)
class PromptedSet:
    """The prompts of one metric as token ids, their references as texts, and the strings that end continuations."""

    prompts: tuple[tuple[int, ...], ...]
    references: tuple[str, ...]
    max_new_tokens: int
    stop: tuple[tuple[str, ...], ...]

    def answers(self, model: PreTrainedModel, scorer: TextScorer) -> list[str]:
        """Return the greedy continuation of each prompt up to its first stop string.

        A prompt that would not fit the model's context together with its continuation loses its beginning.
        """
        context = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        room = max(1, context - self.max_new_tokens) if context is not None else None
        prompts = [prompt if room is None else prompt[-room:] for prompt in self.prompts]
        texts = scorer.continuations(model, prompts, max_new_tokens=self.max_new_tokens, strip=False)
        return [until(text, stop).strip() for text, stop in zip(texts, self.stop, strict=True)]


def prompted_sets(data: UnlearningData, tokenizer: PreTrainedTokenizerBase) -> dict[str, PromptedSet]:
    """Return the prompted sets of the metrics ``verbmem``, ``knowmem`` and ``utility``, if the data have prompts for
    them.

    For plain texts without prompts, ``verbmem`` and ``utility`` are continuations of forget_eval and of retain_eval.
    """
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
    """Return the data's own prompts; references are cut after ``max_new_tokens`` tokens."""
    prompts, references = [], []
    for item in items:
        prompts.append(_without_eos(tokenizer, tokenizer(item.prompt, add_special_tokens=True)["input_ids"]))
        ids = tokenizer(item.reference, add_special_tokens=False)["input_ids"]
        whole = len(ids) <= item.max_new_tokens
        references.append(item.reference if whole else tokenizer.decode(ids[: item.max_new_tokens]))
    longest = max(item.max_new_tokens for item in items)
    return PromptedSet(tuple(prompts), tuple(references), longest, tuple(item.stop for item in items))


def from_texts(tokenizer: PreTrainedTokenizerBase, texts: Sequence[Example]) -> PromptedSet:
    """Return prompts of the first 50 tokens of each text (half of a short one), and the next 128 as references."""
    prompts, references = [], []
    for example in texts:
        ids = _without_eos(tokenizer, tokenizer(example.answer, add_special_tokens=True, verbose=False)["input_ids"])
        given = min(PREFIX_TOKENS, max(1, len(ids) // 2))
        prompts.append(ids[:given])
        references.append(tokenizer.decode(ids[given : given + CONTINUATION_TOKENS]))
    return PromptedSet(tuple(prompts), tuple(references), CONTINUATION_TOKENS, ((),) * len(prompts))


def until(text: str, stop: Sequence[str]) -> str:
    """Return ``text`` before the first occurrence of any stop string."""
    return text[: min((place for item in stop if (place := text.find(item)) >= 0), default=len(text))]


def _without_eos(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> tuple[int, ...]:
    """Remove a final EOS, which would tell the model that there is nothing to continue."""
    return tuple(ids[:-1] if ids and ids[-1] == tokenizer.eos_token_id else ids)
