"""A Phi model with random weights, for benchmarks of time and memory."""

from __future__ import annotations

from pathlib import Path

from trainables.data.examples import Example, UnlearningData
from trainables.target.target import Target


def random_phi(
    folder: Path, data: UnlearningData, *, max_length: int, width: int, layers: int, vocabulary: int | None = None
) -> Target:
    """Save in ``folder`` a random Phi and a tokenizer for the data. Return the model as the target of the data.

    ``vocabulary`` is the vocabulary size of the model; the default is the vocabulary size of the tokenizer.
    """
    import torch
    from transformers import PhiConfig, PhiForCausalLM

    from trainables.models.checkpoints import save_model
    from trainables.models.tiny import train_tokenizer

    tokenizer = train_tokenizer(data.full[:256])
    eos_id = tokenizer.eos_token_id
    config = PhiConfig(
        vocab_size=vocabulary or len(tokenizer),
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=max(1, width // 64),
        max_position_embeddings=2048,
        **dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), eos_id),
    )
    torch.manual_seed(0)
    save_model(PhiForCausalLM(config), tokenizer, folder)
    return Target("0" * 16, str(folder), data, config.vocab_size, {}, (0.0,) * len(data.forget), max_length)


def word_data(count: int, length: int) -> UnlearningData:
    """Return a forget set and a retain set of ``count`` questions each, with answers of ``length`` words."""

    def questions(prefix: str) -> tuple[Example, ...]:
        return tuple(
            Example(f"{prefix} {number}?", " ".join(f"word{(number * index) % 97}" for index in range(length)))
            for number in range(1, count + 1)
        )

    forget, retain = questions("What was"), questions("What is")
    return UnlearningData("words", forget, retain, (*retain, *forget), forget[:8], retain[:8])
