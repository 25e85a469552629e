"""LoRA adapters: a few trainable weights beside frozen ones."""

from __future__ import annotations

import copy
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def add_adapter(model: PreTrainedModel, *, rank: int, seed: int) -> PreTrainedModel:
    """The model under a fresh LoRA adapter on all linear layers but the head (alpha = 2 rank, no dropout)."""
    import torch
    from peft import LoraConfig, TaskType, get_peft_model

    config = LoraConfig(
        r=rank, lora_alpha=2 * rank, lora_dropout=0.0, target_modules="all-linear", task_type=TaskType.CAUSAL_LM
    )
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        # PEFT still asks transformers by the old name.
        warnings.filterwarnings("ignore", message="`is_gradient_checkpointing` is deprecated", category=FutureWarning)
        torch.manual_seed(seed)
        adapted: PreTrainedModel = get_peft_model(model, copy.deepcopy(config))
    return adapted
