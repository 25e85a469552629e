"""The registry of models, with the recipes for fine-tuning their targets, and the registry of prompt templates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from trainables.registry import with_plugins
from trainables.template import CHAT, QUESTION_ANSWER, Template


@dataclass(frozen=True, slots=True)
class TargetRecipe:
    """The settings for fine-tuning a target with AdamW, linear warm-up and linear decay.

    Attributes:
        epochs: the maximum number of epochs.
        stop_when_memorised: whether training ends as soon as the target has memorised the data.
        lora_rank: the rank of the LoRA adapter to train, which is merged after training; None to train all weights.
    """

    lr: float
    batch_size: int
    epochs: int
    stop_when_memorised: bool
    lora_rank: int | None = None


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """One model in the registry. The fields are the defaults for sweeps with this model.

    ``hub_id`` is None for a model that is created locally. ``modality`` is None for a model in a local folder, whose
    modality is unknown. For a plug-in's model, ``make(data, seed)`` returns the model and its tokenizer or image
    processor.
    """

    name: str
    hub_id: str | None
    dataset: str
    recipe: TargetRecipe
    batch_size: int
    eval_batch_size: int
    lr: float
    lr_range: tuple[float, float]
    description: str
    lora_rank: int | None = None
    template: str = QUESTION_ANSWER
    modality: str | None = "language"
    make: Callable[[Any, int], tuple[Any, Any]] | None = None


# The paper (arXiv:2410.22086) trains targets with Adam: lr 1e-5 or 2e-5, batch size 16 or 32, 25 epochs. The paper
# unlearns with lr 1e-5, 5e-5 or 1e-4.
PAPER_RECIPE = TargetRecipe(lr=2e-5, batch_size=16, epochs=25, stop_when_memorised=False)
PAPER_LORA_RANK = 8
TINY_RECIPE = TargetRecipe(lr=2e-3, batch_size=8, epochs=120, stop_when_memorised=True)
# Training starts from random weights and has no augmentation, so that the model memorises the images.
TINY_VISION_RECIPE = TargetRecipe(lr=3e-3, batch_size=32, epochs=60, stop_when_memorised=True)
RESNET_RECIPE = TargetRecipe(lr=1e-3, batch_size=128, epochs=30, stop_when_memorised=False)


def _tiny_model(name: str, description: str) -> ModelInfo:
    return ModelInfo(
        name=name,
        hub_id=None,
        dataset="authors",
        recipe=TINY_RECIPE,
        batch_size=8,
        eval_batch_size=32,
        lr=1e-4,
        lr_range=(1e-5, 1e-3),
        description=f"{description}, made and trained locally; needs no network",
    )


def _full_model(name: str, hub_id: str | None, description: str) -> ModelInfo:
    """Return the entry of a language model for full fine-tuning, with the paper's settings."""
    return ModelInfo(
        name=name,
        hub_id=hub_id,
        dataset="tofu",
        recipe=PAPER_RECIPE,
        batch_size=32,
        eval_batch_size=64,
        lr=1e-5,
        lr_range=(1e-6, 1e-4),
        description=description,
    )


def _lora_model(name: str, hub_id: str, description: str) -> ModelInfo:
    """Return the entry of a language model for LoRA, with the paper's settings."""
    return replace(
        _full_model(name, hub_id, description),
        recipe=replace(PAPER_RECIPE, lora_rank=PAPER_LORA_RANK),
        batch_size=16,
        eval_batch_size=32,
        lr=5e-5,
        lr_range=(5e-6, 5e-4),
        lora_rank=PAPER_LORA_RANK,
    )


_ENTRIES = (
    _tiny_model("tiny-phi", "a Phi of about 1.3M parameters"),
    _tiny_model("tiny-falcon", "a Falcon of about 1.1M parameters with ALiBi and tied embeddings, like falcon-1b"),
    _tiny_model("tiny-gpt2", "a GPT-2 of about 1.2M parameters with tied embeddings and dropout, like gpt2-xl"),
    _tiny_model("tiny-llama", "a Llama of about 1.3M parameters with a tokenizer like Llama's"),
    _tiny_model("tiny-mistral", "a Mistral of about 1.3M parameters with grouped-query, sliding-window attention"),
    _full_model("phi-1.5", "microsoft/phi-1_5", "microsoft/phi-1_5, 1.4B parameters, the paper's main model"),
    _full_model("falcon-1b", "tiiuae/falcon-rw-1b", "tiiuae/falcon-rw-1b, 1.3B parameters, full fine-tuning"),
    _full_model("gpt2-xl", "openai-community/gpt2-xl", "openai-community/gpt2-xl, 1.6B parameters, full fine-tuning"),
    _lora_model(
        "llama2-7b",
        "meta-llama/Llama-2-7b-hf",
        "meta-llama/Llama-2-7b-hf, 6.7B parameters, LoRA of rank 8; accept its license on the hub first",
    ),
    _lora_model(
        "mistral-7b",
        "mistralai/Mistral-7B-v0.1",
        "mistralai/Mistral-7B-v0.1, 7.2B parameters, LoRA of rank 8",
    ),
    ModelInfo(
        name="tiny-resnet",
        hub_id=None,
        dataset="digits",
        recipe=TINY_VISION_RECIPE,
        batch_size=32,
        eval_batch_size=256,
        lr=1e-3,
        lr_range=(1e-5, 1e-2),
        description="a ResNet of about 20,000 parameters, made and trained locally; needs no network",
        modality="vision",
    ),
    ModelInfo(
        name="resnet-50",
        hub_id=None,
        dataset="cifar-10",
        recipe=RESNET_RECIPE,
        batch_size=128,
        eval_batch_size=512,
        lr=1e-4,
        lr_range=(1e-6, 1e-3),
        description="ResNet-50, 24M parameters, trained from scratch; only its data come from the hub",
        modality="vision",
    ),
)

MODELS: Mapping[str, ModelInfo] = with_plugins("MODELS", _ENTRIES)

TEMPLATES: Mapping[str, Template] = with_plugins(
    "TEMPLATES",
    (
        Template(
            name="question-answer",
            text=QUESTION_ANSWER,
            description="for base models; the default of every registered model",
        ),
        Template(name=CHAT, text=CHAT, description="the tokenizer's own chat template, for instruct models"),
    ),
)
"""The registry of prompt templates."""


def is_hub_id(name: str) -> bool:
    """Return whether a name has the form ``organisation/name``."""
    return name.count("/") == 1 and all(name.split("/"))


def find_model(name: str) -> ModelInfo:
    """Return the entry of a registered model, or a new entry for a hub id or a local folder."""
    if name in MODELS:
        return MODELS[name]
    if is_hub_id(name):
        return _full_model(name, hub_id=name, description=f"{name}, a causal language model from the hub")
    return local_model(name)


def local_model(name: str) -> ModelInfo:
    info = _full_model(name, hub_id=None, description="a model in a local folder")
    return replace(info, modality=None)
