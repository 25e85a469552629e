"""Create a ResNet with random weights, or load an image classifier from a folder."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainables.models.weights import LoadError, load_complete, loading
from trainables.vision.processing import ImageProcessor

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from trainables.data.images import ImageData, LabelledImages

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "tiny-resnet": {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1], "layer_type": "basic"},
    # He et al. 2015 (arXiv:1512.03385), table 1.
    "resnet-50": {
        "embedding_size": 64,
        "hidden_sizes": [256, 512, 1024, 2048],
        "depths": [3, 4, 6, 3],
        "layer_type": "bottleneck",
    },
}
# A ResNet's stem halves its input twice. With a side of 128, the first stage of a ResNet-50 has 32 x 32 positions.
INPUT_SIDE = {"tiny-resnet": 32, "resnet-50": 128}
"""The minimum side length of the input. Smaller images are enlarged."""


def base_classifier(
    name: str, folder: Path | str | None, data: ImageData, *, seed: int = 0
) -> tuple[PreTrainedModel, ImageProcessor]:
    """Return the model from which the target is trained, and its processor.

    Without a folder, the model has the architecture ``name`` and random weights.

    Raises:
        LoadError: the model cannot be loaded, or does not accept the images' number of channels.
    """
    images = data.source
    labels = dict(enumerate(images.classes))
    if folder is None:
        model = make_resnet(name, channels=images.pixels.shape[-1], labels=labels, seed=seed)
    else:
        model = load_classifier(folder, labels=labels, seed=seed, new_head=True)
    channels = int(getattr(model.config, "num_channels", 3))
    if images.pixels.shape[-1] not in (1, channels):
        raise LoadError(
            f"{folder}: the model takes images with {channels} channels, but the images of {data.name} have "
            f"{images.pixels.shape[-1]}"
        )
    min_side = INPUT_SIDE.get(name, INPUT_SIDE["resnet-50"])
    return model, processor_for(images, side=min_side, channels=channels)


def make_resnet(name: str, *, channels: int, labels: dict[int, str], seed: int = 0) -> PreTrainedModel:
    """Return a ResNet with random weights in float32."""
    import torch
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(
        **ARCHITECTURES[name],
        num_channels=channels,
        id2label=labels,
        label2id={label: number for number, label in labels.items()},
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return ResNetForImageClassification(config)


def processor_for(images: LabelledImages, *, side: int, channels: int) -> ImageProcessor:
    """Return a processor with the mean and the standard deviation of the data set.

    The processor enlarges images by an integer factor to at least ``side``.
    """
    height = images.pixels.shape[1]
    repeats = channels // len(images.mean)
    return ImageProcessor(
        side=math.ceil(side / height) * height,
        rescale_factor=1.0 / images.white,
        mean=images.mean * repeats,
        std=images.std * repeats,
    )


def load_classifier(
    folder: Path | str,
    *,
    labels: dict[int, str] | None = None,
    seed: int = 0,
    new_head: bool = False,
    skeleton: bool = False,
) -> PreTrainedModel:
    """Load an image classifier in float32 from safetensors. Code from the folder or the hub is never run.

    With ``new_head``, a head that is missing or has another number of labels than ``labels`` is replaced by a head with
    random weights. With ``skeleton``, only names and shapes are loaded.

    Raises:
        LoadError: the model is missing, is incomplete (WeightsError), or is not an image classifier.
    """
    import torch
    from transformers import AutoModelForImageClassification

    head: dict[str, Any] = {}
    if labels is not None:
        head = {"id2label": labels, "label2id": {label: number for number, label in labels.items()}}
    with loading(folder), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return load_complete(AutoModelForImageClassification, folder, skeleton=skeleton, new_head=new_head, **head)
