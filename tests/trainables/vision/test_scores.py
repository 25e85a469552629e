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
from trainables.predictions import Predictions, evaluate_items, item_losses, mean_loss
from trainables.scoring.classification import ClassificationEvaluator
from trainables.vision.losses import predict
from trainables.vision.processing import ImageProcessor, collate


@pytest.fixture(scope="module")
def evaluator(data: ImageData, processor: ImageProcessor) -> ClassificationEvaluator:
    return evaluator_of(data, processor)


def evaluator_of(data: ImageData, processor: ImageProcessor) -> ClassificationEvaluator:
    return Vision().evaluator(data, processor, classes=10, max_length=0, batch_size=7, device="cpu")


def logits_of(network: Any, plain_input: Any, data: ImageData, items: ImageSet) -> tuple[Any, Any]:
    values, labels = plain_input(data, items.rows)
    with torch.no_grad():
        return network(pixel_values=values).logits, labels


def test_a_batch_is_a_sequence_of_one_position_with_the_losses_and_gradients_of_plain_torch(
    network: Any, data: ImageData, processor: ImageProcessor, plain_input: Any
) -> None:
    network.eval()
    found = predict(network, collate(data.retain, [3, 1, 4], processor=processor, device="cpu"))
    values, labels = plain_input(data, data.retain.rows[[3, 1, 4]])
    logits = network(pixel_values=values).logits
    assert found.supervised.tolist() == [[True]] * 3
    torch.testing.assert_close(found.logits[:, 0], logits, rtol=1e-5, atol=1e-5)
    losses = mean_loss(found.nll, found.supervised), cross_entropy(logits, labels)
    torch.testing.assert_close(*losses)
    for mine, theirs in zip(*(torch.autograd.grad(loss, [*network.parameters()]) for loss in losses), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("batch_size", [1, 7, 64])
def test_scores_do_not_depend_on_the_batches_and_keep_the_order(
    batch_size: int, network: Any, data: ImageData, processor: ImageProcessor, plain_input: Any
) -> None:
    logits, labels = logits_of(network, plain_input, data, data.full)
    network.train()
    found = evaluate_items(Vision(), network, data.full, processor=processor, batch_size=batch_size)
    assert network.training
    network.eval()
    expected = cross_entropy(logits.double(), labels, reduction="none")
    torch.testing.assert_close(torch.from_numpy(found.totals), expected, rtol=1e-4, atol=1e-5)
    assert np.where(found.instead < 0, labels, found.instead).tolist() == logits.argmax(dim=1).tolist()
    assert found.agreed.tolist() == (logits.argmax(dim=1) == labels).int().tolist()


def test_a_classifier_with_equal_logits_predicts_the_first_label() -> None:
    labels = torch.tensor([[0], [2]])
    tied = Predictions(torch.zeros(2, 1, 3), labels, torch.zeros(2, 1), torch.ones(2, 1, dtype=torch.bool))
    found = item_losses(torch.nn.Identity(), [1, 1], lambda indices: tied, batch_size=2)
    assert (found.agreed.tolist(), found.instead.tolist()) == ([1, 0], [-1, 0])


def test_losses_are_means_over_each_set_and_each_forget_image_is_capped_at_the_guess(
    evaluator: ClassificationEvaluator, network: Any, data: ImageData, plain_input: Any
) -> None:
    losses = evaluator.scores(network).loss_metrics()
    for name, items in (("forget_loss", data.forget), ("retain_loss", data.retain)):
        expected = cross_entropy(*logits_of(network, plain_input, data, items))
        assert losses[name] == pytest.approx(float(expected), rel=1e-5)
    logits, labels = logits_of(network, plain_input, data, data.forget)
    each = cross_entropy(logits.double(), labels, reduction="none")
    assert losses["forget_loss_capped"] == pytest.approx(float(each.clamp(max=math.log(10)).mean()), rel=1e-5)


def test_accuracies_are_scikit_learns_and_need_held_out_images_for_the_test_accuracy(
    evaluator: ClassificationEvaluator, network: Any, data: ImageData, processor: ImageProcessor, plain_input: Any
) -> None:
    scores = evaluator.scores(network)
    final = scores.measure().metrics
    for name, items in zip(SETS["accuracy"], (data.forget, data.retain, data.holdout), strict=True):
        logits, labels = logits_of(network, plain_input, data, items)
        assert final[name] == accuracy_score(labels.numpy(), logits.argmax(dim=1).numpy())
    assert set(final) == set(SETS["accuracy"])
    assert scores.retain_agreement == final["retain_accuracy"]
    assert 0.0 < final["test_accuracy"] < 1.0, "an accuracy of 0 or 1 would tell little"
    bare = replace(data, holdout=ImageSet(data.source, np.empty(0, dtype=np.int64)))
    without = evaluator_of(bare, processor).scores(network)
    assert without.measure().metrics == {name: final[name] for name in ("forget_accuracy", "retain_accuracy")}


def test_the_passes_of_the_losses_are_used_for_the_accuracies(
    evaluator: ClassificationEvaluator, network: Any, data: ImageData
) -> None:
    measured = evaluator.scores(network).measure()
    seen: list[int] = []
    handle = network.register_forward_hook(lambda module, given, made: seen.append(len(made.logits)))
    scores = evaluator.scores(network)
    scores.loss_metrics()
    again = scores.measure()
    handle.remove()
    assert sum(seen) == len(data.forget) + len(data.retain_eval) + len(data.holdout)
    assert (again.metrics, again.items) == (measured.metrics, measured.items)
