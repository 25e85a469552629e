"""Model folders that ``from_pretrained`` loads without this project."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def save_model(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write safetensors (or the PEFT adapter), config and tokenizer to ``folder``; it appears whole or not at all.

    An older folder of that name is replaced.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}")
    _quiet()
    try:
        model.save_pretrained(staging, safe_serialization=True)
        tokenizer.save_pretrained(staging)
        if folder.exists():
            shutil.rmtree(folder)
        staging.rename(folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def load_model(folder: Path | str) -> PreTrainedModel:
    """A causal language model in float32 from safetensors; code from the folder or the hub never runs."""
    import torch
    from transformers import AutoModelForCausalLM

    _quiet()
    return AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, use_safetensors=True, trust_remote_code=False
    )


def ensure_pad_token(tokenizer: PreTrainedTokenizerBase) -> None:
    """Pad with EOS where a tokenizer has no padding token of its own; masks, not ids, say what is padding."""
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token


def _quiet() -> None:
    """No progress bars of transformers for loading and saving: they would tear the sweep's own display apart."""
    from transformers.utils import logging

    logging.disable_progress_bar()
