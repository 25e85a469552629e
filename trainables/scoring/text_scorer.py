"""How texts are put to a language model: the tokenizer, the template, the cut, the batches and the device, together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainables.data.examples import Example
from trainables.metrics.losses import ItemLosses
from trainables.text.generation import generate_greedy
from trainables.text.losses import sequence_nll
from trainables.text.token_scores import TokenScores, token_scores
from trainables.text.tokens import QUESTION_ANSWER, Tokens, encode, encode_examples, pad_id, prompt_text

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True, kw_only=True)
class TextScorer:
    """``template`` has the places ``{question}`` and ``{answer}``; a sequence is cut after ``max_length`` tokens."""

    tokenizer: PreTrainedTokenizerBase
    max_length: int
    batch_size: int
    device: torch.device | str
    template: str = QUESTION_ANSWER

    def encode(self, examples: Sequence[Example]) -> tuple[Tokens, ...]:
        """Each question and answer as tokens, each plain text in windows."""
        return encode_examples(self.tokenizer, examples, max_length=self.max_length, template=self.template)

    def encode_answer(self, question: str, answer: str) -> Tokens:
        """One question with one answer as tokens."""
        return encode(self.tokenizer, question, answer, max_length=self.max_length, template=self.template)

    def asked(self, question: str) -> str:
        """The prompt of a question, up to and without the space that begins the answer."""
        return prompt_text(question, template=self.template)

    def decode(self, sequences: Sequence[Sequence[int]]) -> list[str]:
        """Token ids as texts, without special tokens."""
        texts: list[str] = self.tokenizer.batch_decode(sequences, skip_special_tokens=True)
        return texts

    def nll(self, model: PreTrainedModel, sequences: Sequence[Tokens]) -> ItemLosses:
        """The losses of each sequence."""
        padding = pad_id(self.tokenizer)
        return sequence_nll(model, sequences, pad_id=padding, batch_size=self.batch_size, device=self.device)

    def tokens(self, model: PreTrainedModel, sequences: Sequence[Tokens]) -> list[TokenScores]:
        """What the model says of each supervised token of each sequence."""
        return token_scores(
            model,
            sequences,
            pad_id=pad_id(self.tokenizer),
            eos_id=int(self.tokenizer.eos_token_id),
            batch_size=self.batch_size,
            device=self.device,
        )

    def continuations(
        self, model: PreTrainedModel, prompts: Sequence[Sequence[int]], *, max_new_tokens: int, strip: bool = True
    ) -> list[str]:
        """The greedy continuation of each prompt."""
        return generate_greedy(
            model,
            self.tokenizer,
            prompts,
            max_new_tokens=max_new_tokens,
            batch_size=self.batch_size,
            device=self.device,
            strip=strip,
        )
