"""Predictions, losses and accuracies of a classifier against plain torch and scikit-learn."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score
from torch.nn.functional import cross_entropy

from trainables.data.images import ImageData, ImageSet
from trainables.metrics.registry import SETS
from trainables.modality.vision import Vision
from trainables.predictions import Predictions, item_losses
from trainables.scoring.classification import ClassificationEvaluator
from trainables.vision.processing import ImageProcessor


def evaluator_of(data: ImageData, processor: ImageProcessor) -> ClassificationEvaluator:
    return Vision().evaluator(data, processor, classes=10, max_length=0, batch_size=7, device="cpu")


def logits_of(network: Any, plain_input: Any, data: ImageData, items: ImageSet) -> tuple[Any, Any]:
    values, labels = plain_input(data, items.rows)
    with torch.no_grad():
        return network(pixel_values=values).logits, labels


def test_a_classifier_with_equal_logits_predicts_the_first_label() -> None:
    labels = torch.tensor([[0], [2]])
    tied = Predictions(torch.zeros(2, 1, 3), labels, torch.zeros(2, 1), torch.ones(2, 1, dtype=torch.bool))
    found = item_losses(torch.nn.Identity(), [1, 1], lambda indices: tied, batch_size=2)
    assert (found.agreed.tolist(), found.instead.tolist()) == ([1, 0], [-1, 0])


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
    sets = {"forget": data.forget, "retain": data.retain, "test": data.holdout}
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
