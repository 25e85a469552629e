"""Convert images to a classifier's input, and save the settings of the conversion."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainables.data.errors import DataError
from trainables.device import on_device
from trainables.models.weights import LoadError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import torch
    from torch import Tensor

    from trainables.data.images import ImageSet

FILE = "preprocessor_config.json"
_NEAREST = 0
"""Pillow's number for nearest-neighbour resizing. With an integer factor, all libraries give the same result."""


@dataclass(frozen=True, slots=True)
class ImageBatch:
    """A batch: ``pixel_values`` ``(B, C, side, side)`` float32, and ``labels`` ``(B, 1)`` int64."""

    pixel_values: Tensor
    labels: Tensor


@dataclass(frozen=True, slots=True)
class ImageProcessor:
    """Computes ``(pixel * rescale_factor - mean) / std`` per channel, and enlarges the image to ``side`` x ``side``.

    If the image is grey and the model has several channels, all channels get the grey image.
    """

    side: int
    rescale_factor: float
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def pixel_values(self, pixels: npt.NDArray[np.uint8], device: torch.device | str) -> Tensor:
        """Convert ``(B, H, W, C)`` uint8 to ``(B, channels, side, side)`` float32 on ``device``.

        Raises:
            DataError: the images have a wrong number of channels, or ``side`` is not a multiple of the images' size.
        """
        import torch

        _, height, width, channels = pixels.shape
        if channels not in (1, len(self.mean)):
            raise DataError(f"the images have {channels} channels, but the model needs {len(self.mean)}")
        if height != width or self.side % height:
            raise DataError(
                f"the images have {height} x {width} pixels and cannot be enlarged to {self.side} x {self.side} by an "
                "integer factor"
            )
        values = on_device(torch.from_numpy(pixels), device).permute(0, 3, 1, 2).float() * self.rescale_factor
        mean = torch.tensor(self.mean, device=values.device).view(1, -1, 1, 1)
        std = torch.tensor(self.std, device=values.device).view(1, -1, 1, 1)
        factor = self.side // height
        return ((values - mean) / std).repeat_interleave(factor, dim=2).repeat_interleave(factor, dim=3)

    def save_pretrained(self, folder: Path | str) -> None:
        """Write ``preprocessor_config.json``, which ``AutoImageProcessor`` can also read."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / FILE).write_text(json.dumps(self._settings(), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def from_pretrained(cls, folder: Path | str) -> ImageProcessor:
        """Load the processor from a model folder.

        Raises:
            LoadError: the processor's file is missing or has unknown steps.
        """
        path = Path(folder) / FILE
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            processor = cls(
                mean=tuple(float(value) for value in content["image_mean"]),
                std=tuple(float(value) for value in content["image_std"]),
                side=int(content["size"]["height"]),
                rescale_factor=float(content["rescale_factor"]),
            )
            for name in ("do_resize", "size", "resample", "do_rescale", "do_normalize"):
                if content[name] != processor._settings()[name]:
                    raise ValueError(f"{name} is {content[name]}")
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise LoadError(
                f"cannot load the image processor {path} ({type(error).__name__}: {error}); it must have the steps "
                "that the command 'target' writes: resize to a square with resample 0 (nearest pixel), rescale, "
                "normalise"
            ) from None
        return processor

    def _settings(self) -> dict[str, Any]:
        return {
            "image_processor_type": "ViTImageProcessor",  # resize, rescale, normalise
            "do_resize": True,
            "size": {"height": self.side, "width": self.side},
            "resample": _NEAREST,
            "do_rescale": True,
            "rescale_factor": self.rescale_factor,
            "do_normalize": True,
            "image_mean": list(self.mean),
            "image_std": list(self.std),
        }


def collate(
    items: ImageSet, indices: Sequence[int], *, processor: ImageProcessor, device: torch.device | str
) -> ImageBatch:
    import torch

    pixels, labels = items.take(indices)
    values = processor.pixel_values(pixels, device)
    return ImageBatch(values, on_device(torch.from_numpy(labels)[:, None], device))
