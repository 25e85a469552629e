"""Small models with random weights, and tokenizers trained on the data.

Each model is a small version of a registered model, and has the same class in transformers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from trainables.data.examples import Example
from trainables.models.checkpoints import ensure_pad_token
from trainables.models.weights import hide_notes

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

VOCABULARY = 2048
WIDTH, LAYERS, HEADS = 128, 4, 4
SLIDING_WINDOW = 32
"""The attention window of tiny-mistral in tokens. Sequences are longer than the window."""

END_OF_TEXT, PAD = "<|endoftext|>", "<|pad|>"
UNKNOWN, BOS, EOS = "<unk>", "<s>", "</s>"


def train_tokenizer(examples: Iterable[Example]) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer on the examples' texts. Training is deterministic."""
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
    tokenizer.train_from_iterator(_texts(examples), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=END_OF_TEXT, pad_token=PAD, clean_up_tokenization_spaces=False
    )


def train_metaspace_tokenizer(examples: Iterable[Example]) -> PreTrainedTokenizerFast:
    """Train a BPE tokenizer like Llama's and Mistral's, without a padding token. Training is deterministic."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE(unk_token=UNKNOWN, fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split("\n", "isolated"), pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first")]
    )
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(content=" ", left=1)]
    )
    special = [UNKNOWN, BOS, EOS]
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=[*special, *byte_tokens], show_progress=False)
    tokenizer.train_from_iterator(_texts(examples), trainer)
    # The trainer reserves ids only for special tokens, but decoding drops special tokens. So the byte tokens are made
    # normal tokens here.
    content = json.loads(tokenizer.to_str())
    content["added_tokens"] = [token for token in content["added_tokens"] if token["content"] in special]
    tokenizer = Tokenizer.from_str(json.dumps(content))
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", special_tokens=[(BOS, tokenizer.token_to_id(BOS))]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token=UNKNOWN,
        bos_token=BOS,
        eos_token=EOS,
        clean_up_tokenization_spaces=False,
    )


def _texts(examples: Iterable[Example]) -> Iterable[str]:
    return (
        example.answer if example.is_text else f"Question: {example.question}\nAnswer: {example.answer}"
        for example in examples
    )


@dataclass(frozen=True, slots=True)
class TinyModel:
    """A small version of a model: its tokenizer (as a training function), transformers class and configuration."""

    tokenizer: Callable[[Iterable[Example]], PreTrainedTokenizerFast]
    architecture: str
    options: Mapping[str, object]


_SIZE = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS}
_LLAMA = {**_SIZE, "intermediate_size": 352, "max_position_embeddings": 4096, "tie_word_embeddings": False}
TINY_MODELS: Mapping[str, TinyModel] = MappingProxyType(
    {
        "tiny-phi": TinyModel(
            train_tokenizer,
            "PhiForCausalLM",
            {**_SIZE, "intermediate_size": 4 * WIDTH, "max_position_embeddings": 2048, "tie_word_embeddings": False},
        ),
        # Like falcon-rw: ALiBi instead of rotary positions, biases, attention before the MLP, one key per head.
        "tiny-falcon": TinyModel(
            train_tokenizer,
            "FalconForCausalLM",
            {
                **_SIZE,
                "alibi": True,
                "bias": True,
                "multi_query": False,
                "parallel_attn": False,
                "new_decoder_architecture": False,
                "tie_word_embeddings": True,
            },
        ),
        # Like gpt2-xl: learned positions, dropout of 0.1 in training.
        "tiny-gpt2": TinyModel(
            train_tokenizer,
            "GPT2LMHeadModel",
            {"n_positions": 1024, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "tie_word_embeddings": True},
        ),
        "tiny-llama": TinyModel(train_metaspace_tokenizer, "LlamaForCausalLM", _LLAMA),
        # Like Mistral-7B-v0.1: several query heads share a key head, and attention has a sliding window.
        "tiny-mistral": TinyModel(
            train_metaspace_tokenizer,
            "MistralForCausalLM",
            {**_LLAMA, "num_key_value_heads": HEADS // 2, "sliding_window": SLIDING_WINDOW},
        ),
    }
)


def tokenizer_for(name: str, examples: Iterable[Example]) -> PreTrainedTokenizerFast:
    """Train the tokenizer of the small model ``name`` on the examples. The tokenizer has a padding token."""
    tokenizer = TINY_MODELS[name].tokenizer(examples)
    ensure_pad_token(tokenizer)
    return tokenizer


def make_tiny(name: str, tokenizer: PreTrainedTokenizerFast, *, seed: int = 0) -> PreTrainedModel:
    """Return the small model ``name`` with random weights in float32."""
    import torch
    import transformers

    hide_notes()
    cls = getattr(transformers, TINY_MODELS[name].architecture)
    eos = int(tokenizer.eos_token_id)
    token_ids = {
        "bos_token_id": eos if tokenizer.bos_token_id is None else int(tokenizer.bos_token_id),
        "eos_token_id": eos,
        "pad_token_id": eos if tokenizer.pad_token_id is None else int(tokenizer.pad_token_id),
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: PreTrainedModel = cls(cls.config_class(vocab_size=VOCABULARY, **TINY_MODELS[name].options, **token_ids))
    return model
