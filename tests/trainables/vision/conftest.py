"""One small image problem for all tests of classifiers: 60 of scikit-learn's digits, and a ResNet trained on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from sklearn import datasets

from tests.trainables.conftest import MakeSpec
from trainables.data.images import ImageData, LabelledImages, forget_one_class
from trainables.models.checkpoints import save_model
from trainables.run.workspace import Workspace
from trainables.spec import TrialSpec
from trainables.target.target import Target
from trainables.vision.models import make_resnet, processor_for
from trainables.vision.processing import ImageProcessor

if TYPE_CHECKING:
    import torch
    from torch import Tensor

PlainInput = Callable[[ImageData, Any], "tuple[Tensor, Tensor]"]
TRAIN, TEST = 60, 20


@pytest.fixture(scope="session")
def data() -> ImageData:
    """Forget the threes among the first 60 digits, retain the others; the next 20 are held out."""
    bunch = datasets.load_digits()
    rows = np.arange(TRAIN + TEST, dtype=np.int64)
    images = LabelledImages(
        pixels=bunch.images[rows].astype(np.uint8)[..., None],
        labels=bunch.target[rows].astype(np.int64),
        classes=tuple("0123456789"),
        white=16,
        mean=(0.3,),
        std=(0.4,),
    )
    return forget_one_class(images, dataset="digits", held_out=rows >= TRAIN, forget_class="3")


@pytest.fixture(scope="session")
def processor(data: ImageData) -> ImageProcessor:
    """Return a processor that enlarges 8 x 8 pixels to 16 x 16."""
    return processor_for(data.source, side=16, channels=1)


@pytest.fixture(scope="session")
def plain_input(data: ImageData) -> PlainInput:
    """Return a function that computes ``(pixel_values, labels)`` of rows without the code under test."""
    import torch

    def make(source: ImageData, rows: Any) -> tuple[Tensor, Tensor]:
        grey = (source.source.pixels[rows, :, :, 0] / 16.0 - 0.3) / 0.4
        large = np.kron(grey, np.ones((1, 2, 2)))
        return torch.tensor(large, dtype=torch.float32)[:, None], torch.tensor(source.source.labels[rows])

    return make


@pytest.fixture(scope="session")
def network(data: ImageData, plain_input: PlainInput) -> torch.nn.Module:
    """Return a ResNet that knows most training images. It is trained here, not by the project's code."""
    import torch

    model = make_resnet("tiny-resnet", channels=1, labels=dict(enumerate("0123456789")))
    values, labels = plain_input(data, data.full.rows)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    model.train()
    for _ in range(25):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(pixel_values=values).logits, labels).backward()
        optimizer.step()
    return model.eval()


@pytest.fixture(scope="session")
def target(
    tmp_path_factory: pytest.TempPathFactory, network: Any, processor: ImageProcessor, data: ImageData, plain_input: Any
) -> Target:
    """Return the network as a target in a folder. The reference NLL is computed here, not by the project's code."""
    import torch

    folder: Path = tmp_path_factory.mktemp("target") / "model"
    save_model(network, processor, folder)
    values, labels = plain_input(data, data.forget.rows)
    with torch.no_grad():
        nll = torch.nn.functional.cross_entropy(network(pixel_values=values).logits, labels, reduction="none")
    return Target("fedcba9876543210", str(folder), data, 10, {}, tuple(nll.tolist()), 512)


@pytest.fixture(scope="session")
def workspace(target: Target) -> Workspace:
    return Workspace(target, device="cpu")


@pytest.fixture(scope="session")
def make_spec(make_spec: MakeSpec) -> MakeSpec:
    """Return a function that makes the spec of a short run on the digits: two epochs of two steps."""
    usual = {"model": "tiny-resnet", "dataset": "digits", "max_length": TrialSpec().max_length}
    return lambda **changes: make_spec(**{**usual, **changes})
