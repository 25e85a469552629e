"""Model folders that ``from_pretrained`` loads without this project."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from search_spaces.durable import staged

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def save_model(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write safetensors (or the PEFT adapter), config and tokenizer to ``folder``; it appears whole or not at all.

    An older folder of that name is replaced.
    """
    with staged(folder) as staging:
        write_model(model, tokenizer, staging)


def write_model(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """The same file by file, for a folder that the caller makes whole."""
    _quiet()
    model.save_pretrained(folder, safe_serialization=True)
    tokenizer.save_pretrained(folder)


class LoadError(RuntimeError):
    """A model, its configuration or its tokenizer cannot be loaded; the message is a plain sentence for the user."""


@contextmanager
def loading(source: Path | str) -> Iterator[None]:
    """Turn whatever goes wrong inside, from torn files to unknown architectures, into one sentence naming ``source``.

    Raises:
        LoadError: always in place of the error.
    """
    _quiet()
    try:
        yield
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:300]
        raise LoadError(f"cannot load the model {source}: {reason}") from error


def load_model(folder: Path | str) -> PreTrainedModel:
    """A causal language model in float32 from safetensors; code from the folder or the hub never runs.

    Raises:
        LoadError: there is no such model, or it is none of that kind.
    """
    import torch
    from transformers import AutoModelForCausalLM

    with loading(folder):
        return AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, use_safetensors=True, trust_remote_code=False
        )


def load_tokenizer(folder: Path | str) -> PreTrainedTokenizerBase:
    """A model's tokenizer, with a padding token.

    Raises:
        LoadError: there is none.
    """
    from transformers import AutoTokenizer

    with loading(folder):
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        if not tokenizer.is_fast:
            raise ValueError("its tokenizer has no fast form (tokenizer.json), which tells where an answer begins")
        if tokenizer.eos_token_id is None:
            raise ValueError("its tokenizer has no end-of-sequence token, which ends every answer")
    ensure_pad_token(tokenizer)
    return tokenizer


def ensure_pad_token(tokenizer: PreTrainedTokenizerBase) -> None:
    """Pad with EOS where a tokenizer has no padding token of its own; masks, not ids, say what is padding."""
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token


def _quiet() -> None:
    """No progress bars of transformers for loading and saving: they would tear the sweep's own display apart."""
    from transformers.utils import logging

    logging.disable_progress_bar()
