"""Add a LoRA adapter to a model, or merge an adapter into its base model."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from trainables.models.checkpoints import base_of, load_model, load_tokenizer, write_model
from trainables.models.weights import loading

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def add_adapter(model: PreTrainedModel, *, rank: int, seed: int) -> PreTrainedModel:
    """Return the model with a new LoRA adapter (alpha = 2 rank, no dropout) on all linear layers except the head."""
    import torch
    from peft import LoraConfig, TaskType, get_peft_model

    config = LoraConfig(
        r=rank, lora_alpha=2 * rank, lora_dropout=0.0, target_modules="all-linear", task_type=TaskType.CAUSAL_LM
    )
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        # PEFT uses a deprecated attribute of transformers, which would show a warning.
        warnings.filterwarnings("ignore", message="`is_gradient_checkpointing` is deprecated", category=FutureWarning)
        torch.manual_seed(seed)
        peft_model: PreTrainedModel = get_peft_model(model, config)
    return peft_model


def has_adapter(model: PreTrainedModel) -> bool:
    """Return whether a model has an adapter: a PEFT model, or a model that was loaded from an adapter's folder."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    return any(isinstance(module, BaseTunerLayer) for module in model.modules())


def merged_copy(model: PreTrainedModel) -> PreTrainedModel:
    """Return a copy of a model with an adapter, in which the adapter is merged into the weights."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    copied = copy.deepcopy(model)
    if hasattr(copied, "merge_and_unload"):  # a PEFT model
        merged: PreTrainedModel = copied.merge_and_unload()
        return merged
    for name, module in list(copied.named_modules()):
        if isinstance(module, BaseTunerLayer):
            module.merge()
            copied.set_submodule(name, module.get_base_layer())
    copied._hf_peft_config_loaded = False
    del copied.peft_config
    return copied


def merge_adapter(adapter: Path, base: str, folder: Path) -> None:
    """Merge an adapter into its base model, and write the merged model to ``folder``.

    Raises:
        LoadError: the adapter or the base model cannot be loaded.
    """
    from peft import PeftModel

    load_model(adapter, skeleton=True)  # PEFT only warns about missing weights
    model = load_model(base)
    with loading(adapter), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="`is_gradient_checkpointing` is deprecated", category=FutureWarning)
        merged = PeftModel.from_pretrained(model, adapter).merge_and_unload()
        tokenizer = load_tokenizer(adapter)
    folder.mkdir(parents=True, exist_ok=True)
    write_model(merged, tokenizer, folder)


def adapter_problems(folder: Path) -> list[str]:
    """Return a list with a message if the base model of an adapter is missing; otherwise an empty list."""
    base = base_of(folder)
    if base is None or (Path(base).is_absolute() and not Path(base).is_dir()):
        return [
            f"{folder}: the adapter's base model {base} is missing; to make the target again, run 'python -m sweeper "
            "target'"
        ]
    return []
