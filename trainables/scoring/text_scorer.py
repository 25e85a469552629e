"""Score texts with a language model, with fixed tokenizer, template, maximum length, batch size and device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainables.data.examples import Example
from trainables.metrics.losses import ItemLosses
from trainables.template import QUESTION_ANSWER
from trainables.text.generation import generate_greedy, generation_batch_size
from trainables.text.losses import sequence_nll
from trainables.text.token_scores import TokenScores, token_scores
from trainables.text.tokens import Tokens, encode, encode_examples, end_ids, pad_id, prompt_text

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_MIN_VERIFIED = 8
"""The minimum number of correct draft tokens to verify the rest of the draft; with fewer, generation is faster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextScorer:
    """Encodes, scores and generates texts. ``template`` is the prompt template (template.py). Sequences are cut after
    ``max_length`` tokens."""

    tokenizer: PreTrainedTokenizerBase
    max_length: int
    batch_size: int
    device: torch.device | str
    template: str = QUESTION_ANSWER

    def encode(self, examples: Sequence[Example]) -> tuple[Tokens, ...]:
        """Return the tokens of each question with its answer. A plain text gives one sequence per window of tokens."""
        return encode_examples(self.tokenizer, examples, max_length=self.max_length, template=self.template)

    def encode_answer(self, question: str, answer: str) -> Tokens:
        """Return the tokens of a question with an answer."""
        return encode(self.tokenizer, question, answer, max_length=self.max_length, template=self.template)

    def prompt_of(self, question: str) -> str:
        """Return the prompt of a question, without the space that begins the answer."""
        return prompt_text(question, template=self.template, tokenizer=self.tokenizer)

    @property
    def ends(self) -> tuple[int, ...]:
        """The tokens that end an answer."""
        return end_ids(self.tokenizer, self.template)

    def decode(self, sequences: Sequence[Sequence[int]]) -> list[str]:
        """Decode token ids to texts, without special tokens."""
        texts: list[str] = self.tokenizer.batch_decode(sequences, skip_special_tokens=True)
        return texts

    def nll(self, model: PreTrainedModel, sequences: Sequence[Tokens]) -> ItemLosses:
        """Return the losses of each sequence."""
        padding = pad_id(self.tokenizer)
        return sequence_nll(model, sequences, pad_id=padding, batch_size=self.batch_size, device=self.device)

    def tokens(self, model: PreTrainedModel, sequences: Sequence[Tokens]) -> list[TokenScores]:
        """Return the model's scores of each supervised token of each sequence."""
        return token_scores(
            model,
            sequences,
            pad_id=pad_id(self.tokenizer),
            ends=self.ends,
            batch_size=self.batch_size,
            device=self.device,
        )

    def greedy_answers(
        self, model: PreTrainedModel, sequences: Sequence[Tokens], losses: ItemLosses, *, max_new_tokens: int
    ) -> list[str]:
        """Return the greedy answer to each sequence's prompt.

        The forward pass that computed ``losses`` has verified each answer up to the first token that the model would
        not generate, so generation starts there. This is speculative decoding with the reference answer as the draft
        (Leviathan et al., ICML 2023, arXiv:2211.17192). If many tokens were verified, the answer is likely to agree
        with the reference again after the first differing token, so another pass verifies the rest. If two tokens are
        equally likely up to float32 rounding, the result may differ from plain greedy decoding.
        """
        prefixes: list[list[int]] = [[] for _ in sequences]
        ends = self.ends
        unverified = list(range(len(sequences)))
        while unverified:
            assert losses.agreed is not None, "the losses are of sequences"
            assert losses.instead is not None, "the losses are of sequences"
            promising = []
            for at, agreed, instead in zip(unverified, losses.agreed.tolist(), losses.instead.tolist(), strict=True):
                start = sequences[at].prompt_length + len(prefixes[at])
                prefixes[at] += sequences[at].ids[start : start + agreed]
                prefixes[at] += [instead] if instead >= 0 else []
                if agreed >= _MIN_VERIFIED and instead not in (-1, *ends):
                    promising.append(at)
            drafts = [_with_rest(sequences[at], prefixes[at]) for at in promising]
            unverified = [at for at, draft in zip(promising, drafts, strict=True) if len(draft) > draft.prompt_length]
            losses = self.nll(model, [draft for draft in drafts if len(draft) > draft.prompt_length])
        prompts = [item.prompt for item in sequences]
        return self.continuations(model, prompts, max_new_tokens=max_new_tokens, prefixes=prefixes)

    def continuations(
        self,
        model: PreTrainedModel,
        prompts: Sequence[Sequence[int]],
        *,
        max_new_tokens: int,
        strip: bool = True,
        prefixes: Sequence[Sequence[int]] | None = None,
    ) -> list[str]:
        """Return the greedy continuation of each prompt. ``prefixes`` has the continuations' first tokens, if known."""
        longest = max(map(len, prompts), default=1) + max_new_tokens
        return generate_greedy(
            model,
            self.tokenizer,
            prompts,
            max_new_tokens=max_new_tokens,
            batch_size=generation_batch_size(model, self.batch_size, longest=longest, max_length=self.max_length),
            device=self.device,
            strip=strip,
            prefixes=prefixes,
            ends=self.ends,
        )


def _with_rest(sequence: Tokens, prefix: Sequence[int]) -> Tokens:
    """Return the tokens generated so far (``prefix``), followed by the reference's remaining tokens as a draft."""
    known = (*sequence.prompt, *prefix)
    return Tokens((*known, *sequence.ids[len(known) :]), len(known))
