r"""Convert questions and answers to token ids, labels and padded batches.

The default template is ``Question: {question}\nAnswer: {answer}`` + EOS. The tokens of the answer and the end token are
supervised. The space before the answer is a part of the answer's first token.

Plain text is cut into windows of at most ``max_length`` tokens. All tokens of a window are supervised, except BOS.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from search_spaces.common.messages import shown
from trainables.data.errors import DataError
from trainables.data.examples import Example
from trainables.device import on_device
from trainables.template import QUESTION_ANSWER, end_id, is_chat, is_plain, text_around_answer
from trainables.text.literal import encode_literally, literal_encoder

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

IGNORED = -100
"""The label of tokens that are not supervised."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """The token ids of a prompt and its answer. The prompt has ``prompt_length`` tokens.

    ``is_cut`` is whether the end of the answer is missing, because the sequence was longer than the maximum length.
    """

    ids: tuple[int, ...]
    prompt_length: int
    is_cut: bool = False

    @property
    def prompt(self) -> tuple[int, ...]:
        return self.ids[: self.prompt_length]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Batch:
    """Right-padded sequences. Each tensor is ``(B, T)`` int64.

    ``prompt_length`` is the number of tokens in the shortest prompt.
    """

    input_ids: Tensor
    attention_mask: Tensor
    labels: Tensor
    prompt_length: int


def pad_id(tokenizer: PreTrainedTokenizerBase) -> int:
    return int(tokenizer.pad_token_id)


def encode(
    tokenizer: PreTrainedTokenizerBase,
    question: str,
    answer: str,
    *,
    max_length: int,
    template: str = QUESTION_ANSWER,
) -> Tokens:
    """Return the token ids of prompt, answer and end token, cut after ``max_length`` token ids.

    Raises:
        DataError: the prompt has at least ``max_length`` tokens, so no token would be supervised.
        TemplateError: the template does not work with the tokenizer.
    """
    encoder = literal_encoder(tokenizer, template)
    prefix, suffix = text_around_answer(template, encoder.protect(question), tokenizer)
    text = prefix + encoder.protect(answer) + (suffix if is_plain(template) else "")
    # A template may contain the tokenizer's BOS token; chat templates contain all special tokens.
    has_bos = is_chat(template) or bool(tokenizer.bos_token and text.startswith(tokenizer.bos_token))
    ids, ends, encoded_text = encoder.encode(text, add_special_tokens=not has_bos, data=(question, answer))
    prompt = prefix.rstrip(" ")
    prompt_end = len(prompt if encoded_text == text else encoder.form(prompt))
    # A token belongs to the answer if it ends after the prompt, so " Paris" counts and ":" does not. A token that joins
    # the end of the prompt with only the space before the answer, such as ": ", belongs to the prompt.
    answer_start = prompt_end + len(prefix) - len(prompt)
    supervised = [end > answer_start or end > prompt_end <= start for start, end in pairwise([0, *ends])]
    prompt_length = supervised.index(True) if True in supervised else len(ids)
    end_token = end_id(template, question, tokenizer)
    ends_with_eos = bool(ids) and ids[-1] == tokenizer.eos_token_id
    if ends_with_eos and tokenizer.eos_token_id != end_token:  # the tokenizer has added its EOS
        ids.pop()
    if not ids or ids[-1] != end_token:
        ids.append(end_token)
    if prompt_length >= max_length:
        raise DataError(
            f"the prompt of '{shown(question, 60)}' has {prompt_length} tokens, so no answer fits into "
            f"--max-length {max_length}: give a larger --max-length"
        )
    return Tokens(tuple(ids[:max_length]), prompt_length=prompt_length, is_cut=len(ids) > max_length)


def encode_examples(
    tokenizer: PreTrainedTokenizerBase,
    examples: Sequence[Example],
    *,
    max_length: int,
    template: str = QUESTION_ANSWER,
) -> tuple[Tokens, ...]:
    """Encode questions with answers, and plain texts. A plain text gives one sequence per window."""
    sequences: list[Tokens] = []
    for item in examples:
        if item.is_text:
            sequences += encode_text(tokenizer, item.answer, max_length=max_length)
        else:
            sequences.append(encode(tokenizer, item.question, item.answer, max_length=max_length, template=template))
    return tuple(sequences)


def encode_text(tokenizer: PreTrainedTokenizerBase, text: str, *, max_length: int) -> tuple[Tokens, ...]:
    """Return the tokens of the text and EOS, cut into windows of at most ``max_length`` tokens.

    If the tokenizer adds BOS, every window starts with an unsupervised BOS.
    """
    ids = encode_literally(tokenizer, text, add_special_tokens=True)
    starts_with_bos = bool(ids) and ids[0] == tokenizer.bos_token_id
    bos = [ids[0]] if starts_with_bos and tokenizer.bos_token_id != tokenizer.eos_token_id else []
    stream = ids[len(bos) :]
    if not stream or stream[-1] != tokenizer.eos_token_id:
        stream.append(tokenizer.eos_token_id)
    width = max_length - len(bos)
    starts = list(range(0, len(stream), width))
    if len(stream) - starts[-1] == 1 and len(starts) > 1:
        starts[-1] -= 1  # without BOS, the first token of a window is not predicted
    ends = [*starts[1:], len(stream)]
    return tuple(Tokens((*bos, *stream[start:end]), len(bos)) for start, end in zip(starts, ends, strict=True))


def left_padded(rows: Sequence[Sequence[int]], *, pad_id: int, device: torch.device | str) -> tuple[Tensor, Tensor]:
    """Return sequences of tokens, padded on the left, and their attention mask, both ``(B, T)``, for generation."""
    import torch

    width = max(map(len, rows))
    ids = torch.full((len(rows), width), pad_id, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, tokens in enumerate(rows):
        ids[row, width - len(tokens) :] = torch.tensor(tokens, dtype=torch.long)
        mask[row, width - len(tokens) :] = 1
    return ids.to(device), mask.to(device)


def collate(sequences: Sequence[Tokens], indices: Sequence[int], *, pad_id: int, device: torch.device | str) -> Batch:
    """Return the sequences at ``indices`` as one right-padded batch on ``device``."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    batch = [sequences[index] for index in indices]
    ids = [torch.tensor(item.ids) for item in batch]
    masks = [torch.ones_like(row) for row in ids]
    labels = [torch.tensor((IGNORED,) * item.prompt_length + item.ids[item.prompt_length :]) for item in batch]

    def padded(rows: list[Tensor], value: int) -> Tensor:
        return on_device(pad_sequence(rows, batch_first=True, padding_value=value), device)

    prompt_length = min(item.prompt_length for item in batch)
    return Batch(padded(ids, pad_id), padded(masks, 0), padded(labels, IGNORED), prompt_length)
