"""The byte-level tokenizer of tiny models is reproducible."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from trainables.data.examples import Example, UnlearningData
from trainables.models.tiny import VOCABULARY, train_tokenizer
from trainables.text.tokens import encode_examples

TEXTS = ["Where does Ada live?\nAda lives in Oslo", "naïve Łódź 東京 🦜\ttab", "  spaces  ", "He said , do n't . Who ?"]


def test_the_tokenizer_is_a_function_of_its_texts_with_at_most_2048_tokens(
    tiny_data: UnlearningData, tokenizer: Any
) -> None:
    assert train_tokenizer(tiny_data.full).get_vocab() == tokenizer.get_vocab()
    assert train_tokenizer([Example("Anything?", "zebra zebra")]).get_vocab() != tokenizer.get_vocab()
    assert tokenizer.eos_token_id != tokenizer.pad_token_id
    assert len(tokenizer) <= VOCABULARY == 2048


def test_any_text_comes_back_and_any_id_decodes_to_text(tokenizer: Any) -> None:
    """A network may generate any of its 2,048 outputs, even those a smaller tokenizer has no token for."""
    assert [tokenizer.decode(tokenizer(text).input_ids) for text in TEXTS] == TEXTS
    assert isinstance(tokenizer.batch_decode([[VOCABULARY - 1, 40]])[0], str)


def test_saved_and_loaded_by_transformers_it_tokenises_alike(
    tokenizer: Any, tiny_data: UnlearningData, tmp_path: Path
) -> None:
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert encode_examples(loaded, tiny_data.full, max_length=64) == encode_examples(
        tokenizer, tiny_data.full, max_length=64
    )
    assert (loaded.eos_token_id, loaded.pad_token_id) == (tokenizer.eos_token_id, tokenizer.pad_token_id)
