"""The input of a classifier equals that of transformers' own image processor, loaded from the saved file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoImageProcessor

from trainables.data import DataError
from trainables.data.images import ImageData
from trainables.models.checkpoints import LoadError
from trainables.vision.models import processor_for
from trainables.vision.processing import ImageProcessor

COLOUR = ImageProcessor(64, 1 / 255, (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))


def random_pixels(side: int, channels: int) -> Any:
    return np.random.default_rng(0).integers(0, 17, (3, side, side, channels), dtype=np.uint8)


@pytest.mark.parametrize(
    ("processor", "side", "channels"),
    [(COLOUR, 32, 3), (ImageProcessor(32, 1 / 16, (0.3,), (0.4,)), 8, 1), (COLOUR, 64, 3)],
    ids=["cifar", "digits", "as large as they are"],
)
def test_the_input_is_that_of_transformers(processor: ImageProcessor, side: int, channels: int, tmp_path: Path) -> None:
    pixels = random_pixels(side, channels)
    processor.save_pretrained(tmp_path)
    theirs = AutoImageProcessor.from_pretrained(tmp_path)(
        list(pixels), return_tensors="pt", input_data_format="channels_last"
    )["pixel_values"]
    mine = processor.pixel_values(pixels, "cpu")
    assert mine.shape == (3, channels, processor.side, processor.side)
    torch.testing.assert_close(mine, theirs.float(), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "fact"),
    [
        ({"resample": 2}, "resample is 2"),
        ({"size": {"shortest_edge": 224}}, "'height'"),
        ({"do_normalize": False}, "do_normalize is False"),
        ({"image_std": [0.5]}, "image_std"),
    ],
)
def test_a_processor_with_another_transformation_is_refused(changes: dict[str, Any], fact: str, tmp_path: Path) -> None:
    COLOUR.save_pretrained(tmp_path)
    assert ImageProcessor.from_pretrained(tmp_path) == COLOUR
    file = tmp_path / "preprocessor_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    with pytest.raises(LoadError, match=fact):
        ImageProcessor.from_pretrained(tmp_path)
    file.unlink()
    with pytest.raises(LoadError, match=file.name):
        ImageProcessor.from_pretrained(tmp_path)


def test_images_are_enlarged_by_the_least_whole_factor_that_reaches_the_side(data: ImageData) -> None:
    assert processor_for(data.source, side=8, channels=1).side == 8
    assert processor_for(data.source, side=30, channels=1).side == 32
    grey_to_colour = processor_for(data.source, side=16, channels=3)
    values = grey_to_colour.pixel_values(data.source.pixels[:2], "cpu")
    assert values.shape == (2, 3, 16, 16)
    assert torch.equal(values[:, 0], values[:, 2])


def test_images_of_another_size_or_number_of_channels_are_refused() -> None:
    with pytest.raises(DataError, match=r"48 x 48 .*64 x 64"):
        COLOUR.pixel_values(random_pixels(48, 3), "cpu")
    with pytest.raises(DataError, match=r"2 channels.* 3"):
        COLOUR.pixel_values(random_pixels(32, 2), "cpu")
