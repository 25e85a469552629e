"""The tokenizer and network made on the spot are the same wherever and whenever they are made."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer

from trainables.data.examples import Example, UnlearningData
from trainables.tiny_models import VOCABULARY, make_tiny_phi, train_tokenizer
from trainables.tokens import encode_examples

TEXTS = ["Where does Ada live?\nAda lives in Oslo", "naïve Łódź 東京 🦜\ttab", "  spaces  ", "He said , do n't . Who ?"]


def test_the_tokenizer_is_a_function_of_its_texts(tiny_data: UnlearningData, tokenizer: Any) -> None:
    assert train_tokenizer(tiny_data.full).get_vocab() == tokenizer.get_vocab()
    assert train_tokenizer([Example("Anything?", "zebra zebra")]).get_vocab() != tokenizer.get_vocab()


def test_it_reads_any_text_and_gives_it_back(tokenizer: Any) -> None:
    assert [tokenizer.decode(tokenizer(text).input_ids) for text in TEXTS] == TEXTS


def test_it_has_an_end_and_a_padding_token_and_at_most_2048_in_all(tokenizer: Any) -> None:
    assert tokenizer.eos_token_id != tokenizer.pad_token_id
    assert len(tokenizer) <= VOCABULARY == 2048


def test_saved_and_loaded_by_transformers_it_tokenises_alike(
    tokenizer: Any, tiny_data: UnlearningData, tmp_path: Path
) -> None:
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert encode_examples(loaded, tiny_data.full, max_length=64) == encode_examples(
        tokenizer, tiny_data.full, max_length=64
    )
    assert (loaded.eos_token_id, loaded.pad_token_id) == (tokenizer.eos_token_id, tokenizer.pad_token_id)


@pytest.fixture(scope="module")
def network(tokenizer: Any) -> Any:
    return make_tiny_phi(tokenizer)


def test_the_network_has_about_a_million_parameters_in_float32(network: Any, tokenizer: Any) -> None:
    assert 1.2e6 < sum(parameter.numel() for parameter in network.parameters()) < 1.4e6
    assert {parameter.dtype for parameter in network.parameters()} == {torch.float32}
    assert network.config.eos_token_id == tokenizer.eos_token_id


def test_the_network_is_a_function_of_its_seed_and_leaves_the_generator_alone(network: Any, tokenizer: Any) -> None:
    torch.manual_seed(123)
    before = torch.get_rng_state()
    again, other = make_tiny_phi(tokenizer), make_tiny_phi(tokenizer, seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(one, two) for one, two in zip(network.parameters(), again.parameters(), strict=True))
    assert not torch.equal(network.get_input_embeddings().weight, other.get_input_embeddings().weight)


def test_untrained_it_guesses_about_uniformly(network: Any, tokenizer: Any) -> None:
    ids = torch.tensor([tokenizer("Question: Where does Ada live?").input_ids])
    loss = float(network(input_ids=ids, labels=ids).loss)
    assert loss == pytest.approx(math.log(VOCABULARY), abs=0.3)


def test_ids_beyond_the_vocabulary_decode_to_text(tokenizer: Any) -> None:
    """The network may generate any of its 2,048 outputs, also those a smaller tokenizer has no token for."""
    assert isinstance(tokenizer.batch_decode([[VOCABULARY - 1, 40]])[0], str)
