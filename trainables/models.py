"""The models by name: where each comes from, its default data, its learning-rate range and its target's recipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class TargetRecipe:
    """How the target is fine-tuned: AdamW with linear warm-up and decay, at most ``epochs`` over the full set.

    With ``stop_when_memorised`` training ends as soon as the mean loss is below 0.05 and verbmem above 0.95.
    """

    lr: float
    batch_size: int
    epochs: int
    stop_when_memorised: bool


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """One entry of the model registry.

    ``hub_id`` is None for models made on the spot. ``modality`` says which data the model takes: language, vision, or
    None where only its folder can tell.
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
    modality: str | None = "language"


# The paper: Adam, lr {1e-5, 2e-5}, batch {16, 32}, 25 epochs for the target; lr {1e-5, 5e-5, 1e-4} for unlearning.
PAPER_RECIPE = TargetRecipe(lr=2e-5, batch_size=16, epochs=25, stop_when_memorised=False)
TINY_RECIPE = TargetRecipe(lr=2e-3, batch_size=8, epochs=120, stop_when_memorised=True)
# From scratch and without augmentation, so that the images are memorised.
TINY_VISION_RECIPE = TargetRecipe(lr=3e-3, batch_size=32, epochs=60, stop_when_memorised=True)
RESNET_RECIPE = TargetRecipe(lr=1e-3, batch_size=128, epochs=30, stop_when_memorised=False)

_ENTRIES = (
    ModelInfo(
        name="tiny-phi",
        hub_id=None,
        dataset="authors",
        recipe=TINY_RECIPE,
        batch_size=8,
        eval_batch_size=32,
        lr=1e-4,
        lr_range=(1e-5, 1e-3),
        description="a Phi of about 1.3M parameters, made and trained on the spot; needs no network",
    ),
    ModelInfo(
        name="phi-1.5",
        hub_id="microsoft/phi-1_5",
        dataset="tofu",
        recipe=PAPER_RECIPE,
        batch_size=32,
        eval_batch_size=64,
        lr=1e-5,
        lr_range=(1e-6, 1e-4),
        description="microsoft/phi-1_5, 1.4B parameters, the paper's main model",
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
        description="a ResNet of about 20,000 parameters, made and trained on the spot; needs no network",
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

MODELS: Mapping[str, ModelInfo] = MappingProxyType({entry.name: entry for entry in _ENTRIES})


def local_model(name: str) -> ModelInfo:
    """The entry for a model given by folder: the settings of the paper's language models."""
    return ModelInfo(
        name=name,
        hub_id=None,
        dataset="tofu",
        recipe=PAPER_RECIPE,
        batch_size=32,
        eval_batch_size=64,
        lr=1e-5,
        lr_range=(1e-6, 1e-4),
        description="a model in a local folder",
        modality=None,
    )
