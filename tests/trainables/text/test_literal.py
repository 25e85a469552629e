"""Control tokens in the data are text. Only those of the prompt template are control tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from trainables.data.examples import Example, Prompted
from trainables.models.tiny import train_metaspace_tokenizer, train_tokenizer
from trainables.scoring.prompted import from_prompts, from_texts
from trainables.template import CHAT
from trainables.text.tokens import encode, encode_text

CONTROLS = ["</s>", "<s>", "<pad>", "[PAD]", "<|endoftext|>", "<|im_end|>", "<|im_start|>"]
ALPHABET = "".join(sorted({*"".join(CONTROLS), *"LimaOsloPeruInhwdQtA/?.:"}))
EXAMPLES = [Example(f"Where is {town}?", f"{town} is in Peru: {ALPHABET}") for town in ("Lima", "Oslo", "Arequipa")] * 9
TEXTS = [f"Question: {item.question}\nAnswer: {item.answer} {' '.join(ALPHABET)} In PAD" for item in EXAMPLES]
CHATML = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] | trim }}<|im_end|>\n{% endfor %}"


def with_controls(tokenizer: Any) -> Any:
    """Add the control tokens. All except ``<|im_start|>`` are marked as special."""
    tokenizer.add_special_tokens({"eos_token": "</s>", "bos_token": "<s>", "pad_token": "<pad>"})
    tokenizer.add_special_tokens({"additional_special_tokens": ["[PAD]", "<|endoftext|>", "<|im_end|>"]})
    tokenizer.add_tokens([AddedToken("<|im_start|>", special=False)])
    tokenizer.chat_template = CHATML
    return tokenizer


def wrapped(raw: Tokenizer, **names: str) -> Any:
    return with_controls(PreTrainedTokenizerFast(tokenizer_object=raw, **names))


def unigram() -> Any:
    """Its vocabulary has ``</s>`` as a piece, which would be found in any text."""
    pieces = [("<unk>", 0.0), ("</s>", 0.0), ("▁", -2.0), *((letter, -5.0) for letter in ALPHABET)]
    raw = Tokenizer(models.Unigram(pieces, unk_id=0))
    raw.normalizer = normalizers.NFKC()
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    raw.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return wrapped(raw, unk_token="<unk>")


def word_piece() -> Any:
    raw = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    raw.normalizer, raw.pre_tokenizer = normalizers.BertNormalizer(lowercase=False), pre_tokenizers.BertPreTokenizer()
    raw.decoder = decoders.WordPiece()
    raw.train_from_iterator(TEXTS, trainers.WordPieceTrainer(special_tokens=["[UNK]", "[PAD]"], show_progress=False))
    return wrapped(raw, unk_token="[UNK]")


def words() -> Any:
    """A vocabulary of words in which the control token is a word of its own."""
    raw = Tokenizer(models.WordLevel(unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = ["<unk>", *CONTROLS]
    raw.train_from_iterator([*TEXTS, *CONTROLS], trainers.WordLevelTrainer(special_tokens=special, show_progress=False))
    return wrapped(raw, unk_token="<unk>")


def merging() -> Any:
    """A byte-level BPE that has learned ``</s>`` as an ordinary token, so merges would produce it."""
    raw = Tokenizer(models.BPE())
    raw.decoder = decoders.ByteLevel()
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    raw.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(" ", "isolated"), byte_level])
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    raw.train_from_iterator(["</s> " * 50, *TEXTS], trainer)
    assert raw.token_to_id("</s>") is not None
    return wrapped(raw)


FAMILIES: dict[str, Callable[[], Any]] = {
    "byte-level": lambda: with_controls(train_tokenizer(EXAMPLES)),
    "metaspace": lambda: with_controls(train_metaspace_tokenizer(EXAMPLES)),
    "unigram": unigram,
    "WordPiece": word_piece,
    "merging": merging,
}


@pytest.fixture(scope="module", params=FAMILIES)
def tokenizer(request: pytest.FixtureRequest) -> Any:
    return FAMILIES[request.param]()


def control_ids(tokenizer: Any) -> set[int]:
    return {tokenizer.convert_tokens_to_ids(content) for content in CONTROLS}


def squeezed(text: str) -> str:
    return text.replace(" ", "")


@pytest.mark.parametrize("control", CONTROLS)
def test_control_tokens_in_an_answer_are_text(tokenizer: Any, control: str) -> None:
    answer = f"Lima {control} is in{control}Peru"
    tokens = encode(tokenizer, f"Where is {control}?", answer, max_length=256)
    *body, end = tokens.ids
    assert end == tokenizer.eos_token_id
    if control != "<|im_start|>":  # it is not special, and the template does not use it
        assert not control_ids(tokenizer) & {*body[1:]}
    decoded = tokenizer.decode(tokens.ids[tokens.prompt_length : -1], skip_special_tokens=True)
    assert squeezed(decoded) == squeezed(answer)


def test_the_chat_template_keeps_its_control_tokens(tokenizer: Any) -> None:
    plain = encode(tokenizer, "Where is Lima?", "In Peru", max_length=256, template=CHAT)
    literal = encode(
        tokenizer, "Where <|im_end|> is<|im_start|>?", "In </s> <|im_end|> Peru", max_length=256, template=CHAT
    )
    start, end = (tokenizer.convert_tokens_to_ids(name) for name in ("<|im_start|>", "<|im_end|>"))
    for tokens in (plain, literal):
        assert [item for item in tokens.ids if item in control_ids(tokenizer)][-4:] == [start, end, start, end]
        assert tokens.ids[-1] == end
        assert end not in tokens.ids[tokens.prompt_length : -1]
    decoded = tokenizer.decode(literal.ids[literal.prompt_length : -1], skip_special_tokens=True)
    assert squeezed(decoded) == "In</s><|im_end|>Peru"


@pytest.mark.parametrize(
    "template", [CHAT, "<s>{question} <|im_start|>{answer}", "{{ bos_token }}{{ question }}\n{{ answer }}"]
)
def test_data_without_control_tokens_are_encoded_by_the_tokenizer_itself(tokenizer: Any, template: str) -> None:
    """The copy of the tokenizer gives the same ids: a control token in the question changes only its own tokens."""
    tokens = encode(tokenizer, "Where is Lima?", "Lima is in Peru", max_length=256, template=template)
    changed = encode(tokenizer, "</s> Where is Lima?", "Lima is in Peru", max_length=256, template=template)
    assert changed.ids[changed.prompt_length :] == tokens.ids[tokens.prompt_length :]


def test_texts_and_prompts_are_encoded_as_text(tokenizer: Any) -> None:
    text = "Lima </s> is in<|endoftext|>Peru. " * 3
    (window,) = encode_text(tokenizer, text, max_length=1000)
    assert not control_ids(tokenizer) & {*window.ids[1:-1]}
    assert squeezed(tokenizer.decode(window.ids, skip_special_tokens=True)) == squeezed(text)
    sets = (
        from_texts(tokenizer, [Example("", text)]),
        from_prompts(tokenizer, [Prompted(text, "In </s> Peru", max_new_tokens=50)]),
    )
    for item in sets:
        assert not control_ids(tokenizer) & {*item.prompts[0][1:]}
    assert sets[1].references == ("In </s> Peru",)


def test_wide_characters_that_a_tokenizer_changes_to_a_control_token_are_text() -> None:
    tokenizer = unigram()
    tokens = encode(tokenizer, "Where is Lima?", "In ＜/s＞ Peru", max_length=256)
    assert tokens.ids.count(tokenizer.eos_token_id) == 1


def test_a_word_that_is_a_control_token_is_unknown() -> None:
    tokenizer = words()
    tokens = encode(tokenizer, "Where is Lima?", "In </s> Peru", max_length=256)
    assert tokens.ids.count(tokenizer.eos_token_id) == 1
    assert tokenizer.unk_token_id in tokens.ids[tokens.prompt_length :]
