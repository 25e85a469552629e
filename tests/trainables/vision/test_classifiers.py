"""The networks by name, and classifiers from folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoImageProcessor, AutoModelForImageClassification, ResNetConfig, ResNetForImageClassification

from tests.trainables.runs import same_bits
from trainables.data.images import ImageData
from trainables.models.checkpoints import LoadError, save_model
from trainables.vision.models import ARCHITECTURES, INPUT_SIDE, base_classifier, load_classifier, make_resnet


def test_resnet_50_has_the_published_size() -> None:
    with torch.device("meta"):
        network = ResNetForImageClassification(ResNetConfig(**ARCHITECTURES["resnet-50"], num_labels=1000))
    assert sum(parameter.numel() for parameter in network.parameters()) == 25_557_032  # torchvision's resnet50


def test_a_tiny_network_is_reproducible_and_leaves_the_global_rng_alone() -> None:
    torch.manual_seed(7)
    before = torch.get_rng_state()
    first, second = (make_resnet("tiny-resnet", channels=1, labels={0: "a", 1: "b"}) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    assert same_bits(first.parameters(), second.parameters())
    assert first.config.id2label == {0: "a", 1: "b"}
    assert sum(parameter.numel() for parameter in first.parameters()) < 25_000
    # A batch of one: a batch norm over a single value has no variance, and torch refuses it.
    side = INPUT_SIDE["tiny-resnet"]
    assert first.train()(pixel_values=torch.randn(1, 1, side, side)).logits.shape == (1, 2)


def test_a_saved_classifier_is_transformers_own(network: Any, processor: Any, data: ImageData, tmp_path: Path) -> None:
    save_model(network, processor, tmp_path / "model")
    theirs = AutoModelForImageClassification.from_pretrained(tmp_path / "model").eval()
    inputs = AutoImageProcessor.from_pretrained(tmp_path / "model")(
        list(data.source.pixels[:5]), return_tensors="pt", input_data_format="channels_last"
    )
    mine = processor.pixel_values(data.source.pixels[:5], "cpu")
    network.eval()
    with torch.no_grad():
        expected = network(pixel_values=mine).logits
        torch.testing.assert_close(theirs(**inputs).logits, expected, rtol=1e-4, atol=1e-4)
    assert theirs.config.id2label[3] == "3"


def test_a_base_of_other_classes_keeps_its_body_and_gets_a_new_head(data: ImageData, tmp_path: Path) -> None:
    other = make_resnet("tiny-resnet", channels=3, labels={0: "a", 1: "b"}, seed=5)
    other.save_pretrained(tmp_path / "base")
    model, processor = base_classifier("mine", str(tmp_path / "base"), data)
    again, _ = base_classifier("mine", str(tmp_path / "base"), data)
    assert model.config.num_labels == 10
    assert processor.pixel_values(data.source.pixels[:1], "cpu").shape[1] == 3
    for (name, value), old in zip(model.named_parameters(), other.parameters(), strict=True):
        assert name.startswith("classifier") or torch.equal(value, old), name
    assert torch.equal(model.classifier[1].weight, again.classifier[1].weight)


def test_a_folder_without_a_classifier_is_named(tmp_path: Path, known_network: Any) -> None:
    known_network.save_pretrained(tmp_path / "phi")
    for name in ("nowhere", "phi"):
        with pytest.raises(LoadError, match=name):
            load_classifier(tmp_path / name)
