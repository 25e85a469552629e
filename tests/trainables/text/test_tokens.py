"""Answer and EOS are supervised, the prompt never; a batch pads on the right.

Two public TOFU implementations get the boundary wrong: one leaves "Answer:" in the loss, one masks the first answer
token, because the prompt tokenised by itself ends in a lone space token. Every test of the boundary runs on byte-level
and on sentencepiece-like tokenizers, with and without special tokens that the tokenizer adds by itself.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from trainables.data import DataError
from trainables.data.examples import Example
from trainables.models.tiny import train_metaspace_tokenizer
from trainables.text.losses import sequence_nll
from trainables.text.tokens import IGNORED, Tokens, collate, encode, encode_text

BOS, EOS, PAD = "<s>", "</s>", "<pad>"
TEXTS = [f"Question: Where is {town}?\nAnswer: {town} is in Peru" for town in ("Lima", "Oslo", "Is A", "Paris")] * 5

_EXAMPLES = [Example("Where is Lima?", "Lima is in Peru"), Example("Is Oslo in Peru?", "is")] * 5


def _byte_level(*, trim_offsets: bool) -> Tokenizer:
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    raw.post_processor = processors.ByteLevel(trim_offsets=trim_offsets)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=[BOS, EOS, PAD], initial_alphabet=alphabet, show_progress=False
    )
    raw.train_from_iterator(TEXTS, trainer)
    return raw


def _metaspace_bpe() -> Tokenizer:
    raw = Tokenizer(models.BPE(unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Metaspace()
    raw.decoder = decoders.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=80, special_tokens=["<unk>", BOS, EOS, PAD], show_progress=False)
    raw.train_from_iterator(TEXTS, trainer)
    return raw


def _unigram_with_lone_space() -> Tokenizer:
    """No piece holds a space and a letter: the answer begins with a lone ``▁`` token, as it may in sentencepiece."""
    pieces = [("<unk>", 0.0), (BOS, 0.0), (EOS, 0.0), (PAD, 0.0), ("▁", -2.0), ("Answer", -3.0), ("Question", -3.0)]
    pieces += [(character, -6.0) for character in sorted(set("".join(TEXTS)) - {" "})]
    raw = Tokenizer(models.Unigram(pieces, unk_id=0))
    raw.pre_tokenizer = pre_tokenizers.Metaspace()
    raw.decoder = decoders.Metaspace()
    return raw


def _llama_like() -> Tokenizer:
    """As Llama-2's tokenizer.json: ``▁`` put before the text and for spaces by a normalizer, unknown text as bytes."""
    learned = json.loads(_metaspace_bpe().to_str())["model"]
    vocabulary = dict(learned["vocab"])
    for byte in range(256):
        vocabulary[f"<0x{byte:02X}>"] = len(vocabulary)
    raw = Tokenizer(
        models.BPE(
            vocabulary,
            [tuple(pair) for pair in learned["merges"]],
            unk_token="<unk>",
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    raw.add_special_tokens(["<unk>", BOS, EOS, PAD])
    raw.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    raw.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return raw


def _adding(raw: Tokenizer, template: str) -> Tokenizer:
    added = processors.TemplateProcessing(
        single=template, special_tokens=[(name, raw.token_to_id(name)) for name in (BOS, EOS)]
    )
    raw.post_processor = processors.Sequence([raw.post_processor, added]) if raw.post_processor else added
    return raw


def _fast(raw: Tokenizer, *, bos: bool) -> Any:
    names = {"unk_token": "<unk>"} if raw.token_to_id("<unk>") is not None else {}
    names |= {"bos_token": BOS} if bos else {}
    return PreTrainedTokenizerFast(
        tokenizer_object=raw, eos_token=EOS, pad_token=PAD, clean_up_tokenization_spaces=False, **names
    )


TOKENIZERS = {
    "byte level": lambda: _fast(_byte_level(trim_offsets=False), bos=False),
    "byte level, trimmed offsets": lambda: _fast(_byte_level(trim_offsets=True), bos=False),
    "byte level, adds BOS": lambda: _fast(_adding(_byte_level(trim_offsets=False), f"{BOS} $A"), bos=True),
    "byte level, adds EOS": lambda: _fast(_adding(_byte_level(trim_offsets=False), f"$A {EOS}"), bos=False),
    "metaspace BPE": lambda: _fast(_metaspace_bpe(), bos=False),
    "metaspace BPE, adds BOS and EOS": lambda: _fast(_adding(_metaspace_bpe(), f"{BOS} $A {EOS}"), bos=True),
    "Llama's normalizer, adds BOS": lambda: _fast(_adding(_llama_like(), f"{BOS} $A"), bos=True),
    "tiny-llama's": lambda: train_metaspace_tokenizer(_EXAMPLES),
    "lone space token": lambda: _fast(_unigram_with_lone_space(), bos=False),
    "lone space token, adds BOS": lambda: _fast(_adding(_unigram_with_lone_space(), f"{BOS} $A"), bos=True),
}
CASES = [("Where is Lima?", "Lima is in Peru"), ("Is Oslo in Peru?", "is"), ("Where?", "Paris"), ("A r", "Answer: r")]


@pytest.fixture(scope="module", params=TOKENIZERS, ids=lambda name: name.replace(", ", "-").replace(" ", "-"))
def any_tokenizer(request: pytest.FixtureRequest) -> Any:
    return TOKENIZERS[request.param]()


@pytest.mark.parametrize(("question", "answer"), CASES)
def test_the_boundary_lies_between_the_colon_and_the_space_of_the_answer(
    any_tokenizer: Any, question: str, answer: str
) -> None:
    """The supervised tokens are the whole answer, its space first, and EOS; the prompt ends with the colon."""
    tokens = encode(any_tokenizer, question, answer, max_length=200)
    *supervised, last = tokens.ids[tokens.prompt_length :]
    assert any_tokenizer.decode(supervised).strip() == answer
    assert last == any_tokenizer.eos_token_id
    assert any_tokenizer.convert_ids_to_tokens(supervised[0]).startswith(("Ġ", "▁"))
    prompt = any_tokenizer.decode(tokens.prompt, skip_special_tokens=True)
    assert prompt.removeprefix(" ") == f"Question: {question}\nAnswer:"


@pytest.mark.parametrize(("question", "answer"), CASES)
def test_no_character_of_the_prompt_and_every_character_of_the_answer_is_labelled(
    any_tokenizer: Any, question: str, answer: str
) -> None:
    """The two public errors at once, on the labels a loss is taken of: characters, by the tokenizer's own offsets."""
    prompt, text = f"Question: {question}\nAnswer:", f"Question: {question}\nAnswer: {answer}"
    tokens = encode(any_tokenizer, question, answer, max_length=200)
    batch = collate([tokens], [0], pad_id=any_tokenizer.pad_token_id or 0, device="cpu")
    offsets = any_tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
    labelled = {
        place
        for (first, last), label in zip(offsets, batch.labels[0].tolist(), strict=False)
        for place in range(first, last)
        if label != IGNORED
    }
    assert not labelled & set(range(len(prompt)))
    assert labelled >= {place for place in range(len(prompt), len(text)) if text[place] != " "}


def test_the_ids_are_those_of_the_text_as_one_piece_with_each_special_token_once(any_tokenizer: Any) -> None:
    """Prompt and answer tokenised separately would teach other tokens than the model sees in running text."""
    tokens = encode(any_tokenizer, "Where is Lima?", "Lima is in Peru", max_length=200)
    assert tokens.ids.count(any_tokenizer.eos_token_id) == 1
    bos = any_tokenizer.convert_tokens_to_ids(BOS)
    expected = [bos] if any_tokenizer.bos_token is not None else []
    assert [token for token in tokens.ids if token == bos] == expected
    assert list(tokens.ids[: len(expected)]) == expected
    whole = any_tokenizer("Question: Where is Lima?\nAnswer: Lima is in Peru", add_special_tokens=False).input_ids
    assert [token for token in tokens.ids if token not in (any_tokenizer.eos_token_id, bos)] == whole


def test_a_sequence_too_long_is_cut_at_its_end(tokenizer: Any) -> None:
    whole = encode(tokenizer, "Where does Ada live?", "Ada lives in Oslo", max_length=200)
    for length in range(whole.prompt_length + 1, len(whole) + 1):
        cut = encode(tokenizer, "Where does Ada live?", "Ada lives in Oslo", max_length=length)
        assert (cut.ids, cut.prompt_length) == (whole.ids[:length], whole.prompt_length)


def test_a_prompt_that_leaves_no_room_for_an_answer_is_refused(tokenizer: Any) -> None:
    """Nothing of it would be supervised: a batch of such sequences has the loss 0/0."""
    room = encode(tokenizer, "Where does Ada live?", "Oslo", max_length=200).prompt_length
    with pytest.raises(DataError, match=rf"Where does Ada live.*takes {room} tokens.*max_length {room}"):
        encode(tokenizer, "Where does Ada live?", "Oslo", max_length=room)


# Plain text -----------------------------------------------------------------------------------------------------------

PROSE = "Lima is in Peru. Oslo is not.\n\n  Paris, Ünïcödé 東京 and so on: " + "one two three " * 30


def _content(tokenizer: Any, windows: Sequence[Tokens]) -> list[int]:
    return [token for window in windows for token in window.ids[window.prompt_length :]]


@pytest.mark.parametrize("max_length", [8, 9, 10, 64, 10_000])
def test_the_windows_of_a_text_are_its_token_stream_cut_and_begin_with_any_bos(
    any_tokenizer: Any, max_length: int
) -> None:
    """Decoding a window and encoding it again would merge other tokens at its ends."""
    windows = encode_text(any_tokenizer, PROSE, max_length=max_length)
    stream = any_tokenizer(PROSE, add_special_tokens=False).input_ids
    assert _content(any_tokenizer, windows) == [*stream, any_tokenizer.eos_token_id]
    assert all(2 <= len(window) <= max_length for window in windows)
    assert all(len(window) >= max_length - 1 for window in windows[:-1])
    begins = any_tokenizer("x").input_ids[0] == any_tokenizer.convert_tokens_to_ids(BOS)
    assert {window.prompt for window in windows} == {(any_tokenizer.bos_token_id,) if begins else ()}


def test_no_window_is_a_single_token(tokenizer: Any) -> None:
    """Nothing of it would be predicted: a batch of such windows has the loss 0/0."""
    length = len(tokenizer("Ada lives in Oslo" * 9).input_ids) + 1
    for max_length in range(8, length + 2):
        windows = encode_text(tokenizer, "Ada lives in Oslo" * 9, max_length=max_length)
        assert sum(map(len, windows)) == length
        assert min(map(len, windows)) >= 2
        assert len(windows) == -(-length // max_length)


def test_all_of_a_text_but_the_first_token_of_a_window_is_learned(
    tokenizer: Any, make_network: Any, exact_nll: Any
) -> None:
    windows = encode_text(tokenizer, "Ada lives in Oslo and eats plums", max_length=8)
    network = make_network()
    totals, _, counts, *_ = sequence_nll(network, windows, pad_id=tokenizer.pad_token_id, batch_size=9, device="cpu")
    assert counts.tolist() == [len(window) - 1 for window in windows]
    for window, total in zip(windows, totals, strict=True):
        whole = exact_nll(network, Tokens(window.ids, 1))
        assert total == pytest.approx(float(whole.sum()), rel=1e-5)


# Batches -------------------------------------------------------------------------------------------------------------

SHORT, LONG, MIDDLE = Tokens((5, 6, 7), 2), Tokens((8, 9, 10, 11, 0), 3), Tokens((12, 13, 14, 0), 1)


def test_a_batch_is_padded_on_the_right_to_its_longest_sequence_and_padding_is_neither_seen_nor_supervised() -> None:
    batch = collate([SHORT, LONG, MIDDLE], [1, 0], pad_id=0, device="cpu")
    no = IGNORED
    assert batch.input_ids.tolist() == [[8, 9, 10, 11, 0], [5, 6, 7, 0, 0]]
    assert batch.attention_mask.tolist() == [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]
    assert batch.labels.tolist() == [[no, no, no, 11, 0], [no, no, 7, no, no]]  # EOS is 0 too, and is supervised
    assert batch.prompt_length == 2
    assert {batch.input_ids.dtype, batch.attention_mask.dtype, batch.labels.dtype} == {torch.int64}
    assert collate([SHORT, LONG, MIDDLE], [0, 2], pad_id=0, device="cpu").input_ids.shape == (2, 4)
