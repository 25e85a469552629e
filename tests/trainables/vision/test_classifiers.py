"""Classifiers: networks, their input against transformers, losses and accuracies against torch and scikit-learn."""

from __future__ import annotations

import copy
import json
import math
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score
from torch.nn.functional import cross_entropy
from transformers import AutoImageProcessor, AutoModelForImageClassification, ResNetConfig, ResNetForImageClassification

from trainables.data import DataError
from trainables.data.images import ImageData, ImageSet
from trainables.metrics.registry import SETS
from trainables.modality.vision import Vision
from trainables.models.checkpoints import save_model
from trainables.models.weights import LoadError
from trainables.scoring.classification import ClassificationEvaluator
from trainables.vision.models import (
    ARCHITECTURES,
    INPUT_SIDE,
    base_classifier,
    load_classifier,
    make_resnet,
    processor_for,
)
from trainables.vision.processing import ImageProcessor


def test_resnet_50_has_the_published_size() -> None:
    with torch.device("meta"):
        network = ResNetForImageClassification(ResNetConfig(**ARCHITECTURES["resnet-50"], num_labels=1000))
    assert sum(parameter.numel() for parameter in network.parameters()) == 25_557_032  # torchvision's resnet50


def test_a_tiny_network_leaves_the_global_rng_alone_and_learns_from_a_batch_of_one() -> None:
    before = torch.get_rng_state()
    network = make_resnet("tiny-resnet", channels=1, labels={0: "a", 1: "b"})
    assert torch.equal(torch.get_rng_state(), before)
    assert sum(parameter.numel() for parameter in network.parameters()) < 25_000
    # A batch of one: a batch norm over a single value has no variance, and torch refuses it.
    side = INPUT_SIDE["tiny-resnet"]
    assert network.train()(pixel_values=torch.randn(1, 1, side, side)).logits.shape == (1, 2)


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


def evaluator_of(data: ImageData, processor: ImageProcessor) -> ClassificationEvaluator:
    return Vision().evaluator(data, processor, classes=10, max_length=0, batch_size=7, device="cpu")


def logits_of(network: Any, plain_input: Any, data: ImageData, items: ImageSet) -> tuple[Any, Any]:
    values, labels = plain_input(data, items.rows)
    with torch.no_grad():
        return network(pixel_values=values).logits, labels


def test_the_weights_of_a_classifier_are_compared_with_the_target_and_text_metrics_are_refused(
    network: Any, data: ImageData, processor: ImageProcessor
) -> None:
    moved = copy.deepcopy(network)
    with torch.no_grad():
        for parameter in moved.parameters():
            parameter *= 1.25
    scores = evaluator_of(data, processor).scores(moved, target=lambda: nullcontext(network))
    found = scores.measure(("robustness",)).metrics
    assert found == {"target_distance": pytest.approx(0.25, rel=1e-5), "nf4_changed": pytest.approx(0.0, abs=1e-3)}
    with pytest.raises(DataError, match="leak_probability needs a language model"):
        scores.measure(("leak_probability",))


def test_each_forget_image_is_capped_at_the_guess_and_accuracies_are_scikit_learns_from_the_same_passes(
    network: Any, data: ImageData, processor: ImageProcessor, plain_input: Any
) -> None:
    seen: list[int] = []
    handle = network.register_forward_hook(lambda module, given, made: seen.append(len(made.logits)))
    scores = evaluator_of(data, processor).scores(network)
    losses = scores.loss_metrics()
    measured = scores.measure()
    handle.remove()
    assert sum(seen) == len(data.forget) + len(data.retain_eval) + len(data.holdout)

    logits, labels = logits_of(network, plain_input, data, data.forget)
    each = cross_entropy(logits.double(), labels, reduction="none")
    assert losses["forget_loss_capped"] == pytest.approx(float(each.clamp(max=math.log(10)).mean()), rel=1e-5)
    final = measured.metrics
    assert set(final) == set(SETS["accuracy"])
    sets = {"forget": data.forget, "retain": data.retain_eval, "test": data.holdout}
    for name, items in sets.items():
        logits, labels = logits_of(network, plain_input, data, items)
        predicted = logits.argmax(dim=1).tolist()
        assert final[f"{name}_accuracy"] == accuracy_score(labels.numpy(), predicted)
        assert list(measured.items[name]["predicted"].values()) == predicted  # type: ignore[attr-defined]
    assert scores.retain_agreement == final["retain_accuracy"]
    assert 0.0 < final["test_accuracy"] < 1.0, "an accuracy of 0 or 1 would tell little"
    bare = replace(data, holdout=ImageSet(data.source, np.empty(0, dtype=np.int64)))
    without = evaluator_of(bare, processor).scores(network)
    assert without.measure().metrics == {name: final[name] for name in ("forget_accuracy", "retain_accuracy")}
