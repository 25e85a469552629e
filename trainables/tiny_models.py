"""The models made on the spot: a byte-level BPE tokenizer trained on the data, a small network."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from trainables.data.examples import Example

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

VOCABULARY = 2048
END_OF_TEXT, PAD = "<|endoftext|>", "<|pad|>"


def train_tokenizer(examples: Iterable[Example]) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer of at most 2,048 tokens, trained on what the examples say; deterministic."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END_OF_TEXT, PAD],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = (
        example.answer if example.is_text else f"Question: {example.question}\nAnswer: {example.answer}"
        for example in examples
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=END_OF_TEXT, pad_token=PAD, clean_up_tokenization_spaces=False
    )


def make_tiny_phi(tokenizer: PreTrainedTokenizerFast, *, seed: int = 0) -> PreTrainedModel:
    """A randomly initialised ``PhiForCausalLM`` of about 1.3M parameters (4 layers, width 128) in float32."""
    import torch
    from transformers import PhiConfig, PhiForCausalLM

    config = PhiConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=4,
        max_position_embeddings=2048,
        bos_token_id=tokenizer.eos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        tie_word_embeddings=False,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return PhiForCausalLM(config)
