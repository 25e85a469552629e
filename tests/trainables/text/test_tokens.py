"""Answer and EOS are supervised, the prompt never; a batch pads on the right.

Two public TOFU implementations get the boundary wrong: one leaves "Answer:" in the loss, one masks the first answer
token, because the prompt tokenised by itself ends in a lone space token. Every test of the boundary runs on byte-level
and on sentencepiece-like tokenizers, with and without special tokens that the tokenizer adds by itself.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from trainables.data import DataError
from trainables.data.examples import Example
from trainables.modality.evaluation import evaluate_items
from trainables.modality.language import Language
from trainables.models.tiny import train_metaspace_tokenizer
from trainables.text.tokens import IGNORED, Tokens, collate, encode, encode_text

SPECIAL = ["<unk>", "<s>", "</s>", "<pad>"]
_, BOS, EOS, PAD = SPECIAL
TEXTS = [f"Question: Where is {town}?\nAnswer: {town} is in Peru" for town in ("Lima", "Oslo", "Is A", "Paris")] * 5
CASES = [("Where is Lima?", "Lima is in Peru"), ("Is Oslo in Peru?", "is"), ("A r", "Answer: r")]
BYTE_LEVEL = pre_tokenizers.ByteLevel(add_prefix_space=False)


def _trained(pre_tokenizer: Any, decoder: Any, *, size: int) -> Tokenizer:
    raw = Tokenizer(models.BPE(unk_token="<unk>"))
    raw.pre_tokenizer, raw.decoder = pre_tokenizer, decoder
    alphabet = pre_tokenizers.ByteLevel.alphabet() if pre_tokenizer is BYTE_LEVEL else []
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    raw.train_from_iterator(TEXTS, trainer)
    return raw


def _byte_level(adds: str, *, trim_offsets: bool = False) -> Any:
    raw = _trained(BYTE_LEVEL, decoders.ByteLevel(), size=300)
    raw.post_processor = processors.ByteLevel(trim_offsets=trim_offsets)
    return _fast(raw, adds)


def _llama_like(adds: str) -> Any:
    """Return a tokenizer with Llama-2's normalizer, which puts ``▁`` before the text and replaces spaces by ``▁``."""
    raw = _trained(pre_tokenizers.Metaspace(), decoders.Metaspace(), size=80)
    raw.pre_tokenizer = None
    raw.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return _fast(raw, adds)


def _unigram_with_lone_space(adds: str) -> Any:
    """No piece has a space and a letter, so the answer starts with a lone ``▁`` token, as sentencepiece allows."""
    pieces = [*((name, 0.0) for name in SPECIAL), ("▁", -2.0), ("Answer", -3.0), ("Question", -3.0)]
    pieces += [(character, -6.0) for character in sorted(set("".join(TEXTS)) - {" "})]
    raw = Tokenizer(models.Unigram(pieces, unk_id=0))
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    return _fast(raw, adds)


def _fast(raw: Tokenizer, adds: str) -> Any:
    """Return a tokenizer of transformers that adds special tokens itself: ``<s> $A`` begins with BOS."""
    named = [(name, raw.token_to_id(name)) for name in (BOS, EOS)]
    added = processors.TemplateProcessing(single=adds, special_tokens=named)
    raw.post_processor = processors.Sequence([raw.post_processor, added]) if raw.post_processor else added
    return PreTrainedTokenizerFast(
        tokenizer_object=raw,
        eos_token=EOS,
        pad_token=PAD,
        clean_up_tokenization_spaces=False,
        unk_token="<unk>",
        **({"bos_token": BOS} if BOS in adds else {}),
    )


TOKENIZERS = {
    "byte-level": lambda: _byte_level("$A"),
    "byte-level-trimmed-offsets": lambda: _byte_level("$A", trim_offsets=True),
    "byte-level-adds-BOS": lambda: _byte_level(f"{BOS} $A"),
    "byte-level-adds-EOS": lambda: _byte_level(f"$A {EOS}"),
    "Llama's-normalizer-adds-BOS": lambda: _llama_like(f"{BOS} $A"),
    "lone-space-token": lambda: _unigram_with_lone_space("$A"),
    "tiny-llama": lambda: train_metaspace_tokenizer([Example(*case) for case in CASES] * 5),
}


@pytest.fixture(scope="module", params=TOKENIZERS)
def any_tokenizer(request: pytest.FixtureRequest) -> Any:
    return TOKENIZERS[request.param]()


@pytest.mark.parametrize(("question", "answer"), CASES)
def test_the_boundary_lies_between_the_colon_and_the_space_of_the_answer(
    any_tokenizer: Any, question: str, answer: str
) -> None:
    """Prompt and answer tokenised separately would teach other tokens than the model sees in running text."""
    tokens = encode(any_tokenizer, question, answer, max_length=200)
    supervised = tokens.ids[tokens.prompt_length : -1]
    assert any_tokenizer.decode(supervised).strip() == answer
    assert any_tokenizer.convert_ids_to_tokens(supervised[0]).startswith(("Ġ", "▁"))
    prompt = f"Question: {question}\nAnswer:"
    assert any_tokenizer.decode(tokens.prompt, skip_special_tokens=True).removeprefix(" ") == prompt
    whole = any_tokenizer(f"{prompt} {answer}", add_special_tokens=False).input_ids
    bos = [any_tokenizer.bos_token_id] if any_tokenizer.bos_token else []
    assert list(tokens.ids) == [*bos, *whole, any_tokenizer.eos_token_id]


def test_a_token_of_the_prompts_end_and_the_space_before_the_answer_belongs_to_the_prompt() -> None:
    """Tokenizers whose tokens may have several words, as in SuperBPE, have such tokens."""
    names = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet()), ":Ġ"]
    raw = Tokenizer(models.BPE({name: number for number, name in enumerate(names)}, [(":", "Ġ")], unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    raw.decoder, raw.post_processor = decoders.ByteLevel(), processors.ByteLevel(trim_offsets=False)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, eos_token=EOS, pad_token=PAD)
    tokens = encode(tokenizer, "Where is Lima?", "Peru", max_length=200)
    assert tokenizer.decode(tokens.prompt) == "Question: Where is Lima?\nAnswer: "
    assert tokenizer.decode(tokens.ids[tokens.prompt_length :]) == f"Peru{EOS}"


def test_a_sequence_too_long_is_cut_at_its_end_and_a_prompt_without_room_for_an_answer_is_refused(
    tokenizer: Any,
) -> None:
    """A prompt without room for an answer token is refused, because the loss of a batch of such prompts is 0/0."""
    question, answer = "Where does Ada live?", "Ada lives in Oslo"
    whole = encode(tokenizer, question, answer, max_length=200)
    room = whole.prompt_length
    for length in range(room + 1, len(whole) + 1):
        expected = Tokens(whole.ids[:length], room, is_cut=length < len(whole))
        assert encode(tokenizer, question, answer, max_length=length) == expected
    with pytest.raises(DataError, match=rf"Where does Ada live.*has {room} tokens.*--max-length {room}"):
        encode(tokenizer, question, answer, max_length=room)


PROSE = "Lima is in Peru. Oslo is not.\n\n  Paris, Ünïcödé 東京 and so on: " + "one two three " * 30


def test_the_windows_of_a_text_are_its_token_stream_cut_and_begin_with_any_bos(any_tokenizer: Any) -> None:
    """Every window has at least two tokens, because a single token has no next token to predict."""
    stream = any_tokenizer(PROSE, add_special_tokens=False).input_ids
    begins = any_tokenizer("x").input_ids[0] == any_tokenizer.convert_tokens_to_ids(BOS)
    for max_length in (*range(8, 40), 10_000):
        windows = encode_text(any_tokenizer, PROSE, max_length=max_length)
        content = [token for window in windows for token in window.ids[window.prompt_length :]]
        assert content == [*stream, any_tokenizer.eos_token_id]
        assert all(2 <= len(window) <= max_length for window in windows)
        assert all(len(window) >= max_length - 1 for window in windows[:-1])
        assert {window.prompt for window in windows} == {(any_tokenizer.bos_token_id,) if begins else ()}


def test_all_of_a_text_but_the_first_token_of_a_window_is_learned(
    tokenizer: Any, make_network: Any, exact_nll: Any
) -> None:
    windows = encode_text(tokenizer, "Ada lives in Oslo and eats plums", max_length=8)
    network = make_network()
    totals, _, counts, *_ = evaluate_items(Language(), network, windows, processor=tokenizer, batch_size=9)
    assert counts.tolist() == [len(window) - 1 for window in windows]
    for window, total in zip(windows, totals, strict=True):
        whole = exact_nll(network, Tokens(window.ids, 1))
        assert total == pytest.approx(float(whole.sum()), rel=1e-5)


def test_a_batch_is_padded_on_the_right_to_its_longest_sequence_and_padding_is_neither_seen_nor_supervised() -> None:
    sequences = [Tokens((5, 6, 7), 2), Tokens((8, 9, 10, 11, 0), 3), Tokens((1,) * 9, 1)]
    batch = collate(sequences, [1, 0], pad_id=0, device="cpu")
    no = IGNORED
    assert batch.input_ids.tolist() == [[8, 9, 10, 11, 0], [5, 6, 7, 0, 0]]
    assert batch.attention_mask.tolist() == [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]
    assert batch.labels.tolist() == [[no, no, no, 11, 0], [no, no, 7, no, no]]  # EOS is 0 too, and is supervised
    assert batch.prompt_length == 2
    assert {batch.input_ids.dtype, batch.attention_mask.dtype, batch.labels.dtype} == {torch.int64}
