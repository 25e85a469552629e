"""Encode texts with one tokenizer and template, and score and generate texts with a language model."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING

from trainables.batches import sorted_batches
from trainables.data.examples import Example
from trainables.metrics.losses import ItemLosses
from trainables.models.generation import without_own_settings
from trainables.models.shapes import position_limit
from trainables.predictions import Predictions, evaluation_mode, item_losses
from trainables.template import QUESTION_ANSWER, end_id, text_around_answer
from trainables.text.distributions import Distributions, distributions
from trainables.text.losses import predict
from trainables.text.sampling import Sampler
from trainables.text.token_scores import TokenScores, token_scores
from trainables.text.tokens import Tokens, collate, encode_examples, left_padded, pad_id

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_MIN_VERIFIED = 8
"""If fewer draft tokens were accepted, generating the remaining tokens is faster than checking the draft again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextScorer:
    """Encodes, scores and generates texts. Sequences are cut after ``max_length`` tokens."""

    tokenizer: PreTrainedTokenizerBase
    max_length: int
    batch_size: int
    device: torch.device | str
    template: str = QUESTION_ANSWER

    def encode(self, examples: Sequence[Example]) -> tuple[Tokens, ...]:
        """Return the tokens of each question with its answer. A plain text gives one sequence per window of tokens."""
        return encode_examples(self.tokenizer, examples, max_length=self.max_length, template=self.template)

    def prompt_of(self, question: str) -> str:
        """Return the prompt of a question, without the space before the answer."""
        return text_around_answer(self.template, question, self.tokenizer)[0].rstrip(" ")

    @property
    def ends(self) -> tuple[int, ...]:
        """The tokens that end an answer: EOS and the end token of the template."""
        ends = (int(self.tokenizer.eos_token_id), end_id(self.template, "?", self.tokenizer))
        return tuple(dict.fromkeys(ends))  # without duplicates

    def decode(self, sequences: Sequence[Sequence[int]]) -> list[str]:
        """Decode token ids to texts, up to the template's end token and without special tokens."""
        # The end token of a chat template need not be special for the tokenizer, which would then keep its text. EOS is
        # always special. It may also be the BOS token, which begins a text and ends nothing.
        _, *ends = self.ends
        answers = [list(takewhile(lambda token: token not in ends, tokens)) for tokens in sequences]
        texts: list[str] = self.tokenizer.batch_decode(answers, skip_special_tokens=True)
        return texts

    def nll(
        self,
        model: PreTrainedModel,
        sequences: Sequence[Tokens],
        *,
        observe: Callable[[list[int], Predictions], None] | None = None,
    ) -> ItemLosses:
        """Return the losses of each sequence. ``observe`` gets the indices and the predictions of each batch."""
        lengths = [len(item) for item in sequences]
        predict_batch = partial(self._predict, model, sequences)
        observers = {} if observe is None else {"observe": observe}
        return item_losses(model, lengths, predict_batch, batch_size=self.batch_size, **observers)

    def answer_nll(self, model: PreTrainedModel, questions: Sequence[str], answers: Sequence[str]) -> ItemLosses:
        """Return the losses of each answer's tokens. The end token counts only if an answer is empty."""
        pairs = zip(questions, answers, strict=True)
        sequences = self.encode([Example(question, answer) for question, answer in pairs])
        ends = self.ends
        return self.nll(
            model,
            [
                replace(item, ids=item.ids[:-1])
                if item.ids[-1] in ends and len(item) > item.prompt_length + 1
                else item
                for item in sequences
            ],
        )

    def distributions(self, model: PreTrainedModel, sequences: Sequence[Tokens]) -> list[Distributions]:
        """Return a model's distributions of the next token at the supervised positions of each sequence."""
        results: dict[int, Distributions] = {}
        with evaluation_mode(model):
            for indices in sorted_batches([len(item) for item in sequences], self.batch_size):
                found = distributions(self._predict(model, sequences, indices))
                results |= zip(indices, found, strict=True)
        return [results[index] for index in range(len(sequences))]

    def tokens(self, model: PreTrainedModel, sequences: Sequence[Tokens]) -> list[TokenScores]:
        """Return the scores of each sequence's supervised tokens.

        The end token is not scored, unless it is the only supervised token.
        """
        ends = self.ends
        scores: dict[int, TokenScores] = {}
        with evaluation_mode(model):
            for indices in sorted_batches([len(item) for item in sequences], self.batch_size):
                predicted = self._predict(model, sequences, indices)
                for row, index in enumerate(indices):
                    positions = predicted.supervised[row].nonzero()[:, 0]
                    if len(positions) > 1 and int(predicted.labels[row, positions[-1]]) in ends:
                        positions = positions[:-1]
                    scores[index] = token_scores(predicted.logits[row, positions], predicted.labels[row, positions])
        return [scores[index] for index in range(len(sequences))]

    def _predict(self, model: PreTrainedModel, sequences: Sequence[Tokens], indices: Sequence[int]) -> Predictions:
        return predict(model, collate(sequences, indices, pad_id=pad_id(self.tokenizer), device=self.device))

    def greedy_answers(
        self,
        model: PreTrainedModel,
        sequences: Sequence[Tokens],
        losses: ItemLosses,
        *,
        limits: Sequence[int],
        given: Sequence[int] | None = None,
    ) -> list[str]:
        """Return the greedy answer to each sequence's prompt, of at most ``limits[k]`` tokens for the k-th prompt.

        ``given`` has the number of tokens at the end of each prompt that are the beginning of the answer. The returned
        texts and ``limits`` include these tokens.

        The method is speculative decoding (Leviathan et al., ICML 2023, arXiv:2211.17192) with the reference answer as
        the draft. ``losses`` are the losses of the reference answers. The first ``losses.agreed`` tokens of a reference
        answer are also the first greedy tokens, so they are not generated again. If two tokens are equally likely up to
        float32 rounding, the result may differ from plain greedy decoding.
        """
        counts = [0] * len(sequences) if given is None else given
        begins = [item.prompt_length - count for item, count in zip(sequences, counts, strict=True)]
        prompts = [item.ids[:begin] for item, begin in zip(sequences, begins, strict=True)]
        prefixes = [list(item.ids[begin : item.prompt_length]) for item, begin in zip(sequences, begins, strict=True)]
        ends = self.ends
        drafts = dict(enumerate(sequences))
        draft_losses = losses
        while drafts:
            next_drafts: dict[int, Tokens] = {}
            agreed_counts, corrections = draft_losses.agreed.tolist(), draft_losses.first_wrong.tolist()
            for (index, draft), agreed, correction in zip(drafts.items(), agreed_counts, corrections, strict=True):
                prefixes[index] += draft.ids[draft.prompt_length : draft.prompt_length + agreed]
                if correction < 0:  # all tokens of the draft agreed
                    continue
                prefixes[index].append(correction)
                verified_ids = (*prompts[index], *prefixes[index])
                draft_ids = sequences[index].ids[len(verified_ids) :]
                # If many tokens agreed, the answer probably agrees with the reference again after the wrong token.
                may_agree_again = agreed >= _MIN_VERIFIED and correction not in ends
                if draft_ids and may_agree_again:
                    next_drafts[index] = Tokens((*verified_ids, *draft_ids), prompt_length=len(verified_ids))
            drafts = next_drafts
            draft_losses = self.nll(model, list(drafts.values()))
        texts = self.generate(model, prompts, limits=limits, prefixes=prefixes)
        return [text.strip() for text in texts]

    def generate(
        self,
        model: PreTrainedModel,
        prompts: Sequence[Sequence[int]],
        *,
        limits: Sequence[int],
        prefixes: Sequence[Sequence[int]] | None = None,
    ) -> list[str]:
        """Return the greedy continuation of each prompt as text, without special tokens.

        ``limits`` has the maximum number of tokens of each continuation, which also ends if the model has no more
        positions. ``prefixes`` has the first tokens of each continuation, if they are already known. These tokens count
        towards the limit. If they contain an end token, the continuation is complete.
        """
        ends = self.ends
        results = [list(tokens) for tokens in prefixes] if prefixes is not None else [[] for _ in prompts]
        context_length, limits, batch_size = self._generation_limits(model, prompts, limits)

        def unfinished() -> list[int]:
            return [
                index
                for index, tokens in enumerate(results)
                if len(tokens) < limits[index] and not any(end in tokens for end in ends)
            ]

        with evaluation_mode(model), without_own_settings(model):
            # A second round is needed only if the longest sequence of a batch has filled the context.
            while pending := unfinished():
                lengths = [len(prompts[index]) + len(results[index]) for index in pending]
                for batch in sorted_batches(lengths, batch_size):
                    indices = [pending[position] for position in batch]
                    inputs = [[*prompts[index], *results[index]] for index in indices]
                    needed = max(limits[index] - len(results[index]) for index in indices)
                    free = context_length - max(map(len, inputs))
                    outputs = self._continue(model, inputs, min(needed, free))
                    for index, tokens in zip(indices, outputs, strict=True):
                        results[index] = [*results[index], *tokens][: limits[index]]
        return self.decode(results)

    def sampled_answers(
        self, model: PreTrainedModel, prompts: Sequence[Sequence[int]], *, n: int, limits: Sequence[int], seed: int
    ) -> list[list[str]]:
        """Return ``n`` answers to each prompt, sampled at temperature 1 (:class:`.Sampler`)."""
        context_length, limits, batch_size = self._generation_limits(model, prompts, limits)
        sampler = Sampler(
            model=model,
            ends=self.ends,
            pad_id=pad_id(self.tokenizer),
            batch_size=batch_size,
            context_length=context_length,
        )
        with evaluation_mode(model), without_own_settings(model):
            samples = sampler.sample(prompts, n=n, limits=limits, seed=seed)
        return [self.decode(answers) for answers in samples]

    def _generation_limits(
        self, model: PreTrainedModel, prompts: Sequence[Sequence[int]], limits: Sequence[int]
    ) -> tuple[int, list[int], int]:
        """Return the model's context length, each prompt's limit in this context, and the batch size."""
        context_length = position_limit(model) or sys.maxsize
        in_context = [min(limit, context_length - len(prompt)) for limit, prompt in zip(limits, prompts, strict=True)]
        longest = max(map(len, prompts), default=1) + max(in_context, default=0)
        batch_size = generation_batch_size(model, self.batch_size, longest=longest, max_length=self.max_length)
        return context_length, in_context, batch_size

    def _continue(self, model: PreTrainedModel, inputs: Sequence[list[int]], max_new_tokens: int) -> list[list[int]]:
        """Return the greedy continuations of one batch. After an end token, they are padded."""
        from transformers import GenerationConfig

        ids, mask = left_padded(inputs, pad_id=pad_id(self.tokenizer), device=self.device)
        ends = self.ends
        settings = GenerationConfig(
            max_new_tokens=max_new_tokens,
            do_sample=False,
            num_beams=1,
            use_cache=True,
            pad_token_id=pad_id(self.tokenizer),
            eos_token_id=ends if len(ends) > 1 else ends[0],
        )
        output = model.generate(input_ids=ids, attention_mask=mask, generation_config=settings)
        continuations: list[list[int]] = output[:, ids.shape[1] :].tolist()
        return continuations


def generation_batch_size(model: PreTrainedModel, batch_size: int, *, longest: int, max_length: int) -> int:
    """Return the batch size for generation: one to four times ``batch_size``, the batch size for scoring.

    The batch size is more than ``batch_size`` only if the keys and values need at most half as much memory as the
    logits in scoring, and if the batch has at most as many tokens as a batch for scoring.
    """
    config = model.config.get_text_config()
    query_heads = getattr(config, "num_attention_heads", None)
    if query_heads is None:
        return batch_size
    kv_heads = getattr(config, "num_key_value_heads", None) or query_heads
    head_size = getattr(config, "head_dim", None) or config.hidden_size // query_heads
    value_bytes = model.dtype.itemsize
    cache_bytes: int = 2 * config.num_hidden_layers * kv_heads * head_size * value_bytes
    logit_bytes: int = config.vocab_size * (value_bytes + 2 * 4)  # logits, and float32 copies around the softmax
    memory_factor, length_factor = logit_bytes // (2 * cache_bytes), max_length // longest
    return batch_size * max(1, min(4, memory_factor, length_factor))
