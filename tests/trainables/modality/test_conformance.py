"""The properties that every modality must have, checked on a small model."""

from __future__ import annotations

import math
import tempfile
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from trainables.data import DATASETS, TaskData, load_data
from trainables.data.examples import UnlearningData
from trainables.modality import MODALITIES, Modality, dataset_modality, modality_of
from trainables.models.checkpoints import save_model
from trainables.models.registry import MODELS
from trainables.objectives.base import Reference
from trainables.spec import TrialSpec

MAX_LENGTH = 64
Made = tuple[PreTrainedModel, Any, TaskData]
TOLERANCE = 1e-4
"""The relative tolerance when a float32 loss is compared with a float64 loss."""


def check_modality(
    modality: Modality, model: PreTrainedModel, processor: Any, data: TaskData, *, max_length: int
) -> None:
    """Run all checks below, on the CPU.

    Raises:
        AssertionError: a check failed; the message says which.
    """
    check_facts(modality)
    check_items(modality, processor, data.retain, max_length=max_length)
    check_predictions(modality, model, processor, data.forget, max_length=max_length)
    check_losses(modality, model, processor, data, max_length=max_length)
    check_folder(modality, model, processor, data.forget, max_length=max_length)


def check_facts(modality: Modality) -> None:
    """Check that the attributes that the command line reads are valid."""
    assert MODELS[modality.offline_model].modality == modality.name, f"{modality.offline_model} is of another modality"
    assert MODELS[modality.offline_model].hub_id is None, f"{modality.offline_model} needs a network"
    assert DATASETS[modality.offline_dataset].modality == modality.name, f"{modality.offline_dataset} is of another one"
    assert DATASETS[modality.offline_dataset].files is None, f"{modality.offline_dataset} needs files"
    known = {field.name for field in fields(TrialSpec)}
    assert set(modality.unused_fields) <= known, f"a trial has no fields {sorted(set(modality.unused_fields) - known)}"
    assert set(modality.lacks) <= set(Reference), "lacks may only name needs of objectives"
    reasons = (modality.models, modality.unit, *modality.unused_fields.values(), *modality.lacks.values())
    assert all(reasons), "names and reasons must not be empty"
    assert modality.with_template("{question}{answer}").name == modality.name, "a template changes the name"


def check_items(modality: Modality, processor: Any, examples: Any, *, max_length: int) -> None:
    """Check that every item has a valid length, and that encoding is reproducible."""
    items, again = (modality.encode(processor, examples, max_length=max_length) for _ in range(2))
    lengths = list(modality.lengths(items))
    assert len(lengths) == len(items) >= 1, f"{len(items)} items have {len(lengths)} lengths"
    assert all(1 <= length <= max_length for length in lengths), f"a length is not from 1 to {max_length}"
    assert list(modality.lengths(again)) == lengths, "encoding twice gives items of other lengths"


def check_predictions(
    modality: Modality, model: PreTrainedModel, processor: Any, examples: Any, *, max_length: int
) -> None:
    """Check the shapes and types of predictions, that losses match the logits, and that the model gets gradients."""
    model.eval()
    items = modality.encode(processor, examples, max_length=max_length)
    indices = list(range(len(items)))[:5][::-1]
    batch = modality.collate(items, indices, processor=processor, device="cpu")
    found = modality.predict(model, batch)
    rows, width, classes = found.logits.shape
    assert rows == len(indices), f"a batch of {len(indices)} items has {rows} rows"
    assert classes == modality.classes(model.config), f"logits of {classes} classes, the configuration says otherwise"
    for name, tensor, kind in (
        ("labels", found.labels, torch.int64),
        ("nll", found.nll, torch.float32),
        ("supervised", found.supervised, torch.bool),
    ):
        assert tuple(tensor.shape) == (rows, width), f"{name} has shape {tuple(tensor.shape)}, not {(rows, width)}"
        assert tensor.dtype == kind, f"{name} is {tensor.dtype}, not {kind}"
    assert found.supervised.any(dim=1).all(), "a row has no supervised position"
    assert (found.labels[~found.supervised] == -100).all(), "a position that is not supervised has a label"
    assert (found.nll[~found.supervised] == 0).all(), "a position that is not supervised has a loss"
    log_p = torch.log_softmax(found.logits.detach().double(), dim=-1)
    exact = -log_p.gather(2, found.labels.clamp(min=0)[..., None])[..., 0] * found.supervised
    assert torch.allclose(found.nll.double(), exact, rtol=TOLERANCE, atol=1e-5), "nll is not -log p of the labels"
    found.nll.sum().backward()
    assert any(parameter.grad is not None for parameter in model.parameters()), "no gradient reaches the model"
    model.zero_grad(set_to_none=True)


def check_losses(
    modality: Modality, model: PreTrainedModel, processor: Any, data: TaskData, *, max_length: int
) -> None:
    """Check that losses of items do not depend on the batches, and match the evaluator; scoring changes no weights."""

    def nll(part: Any, batch_size: int) -> tuple[list[float], list[int]]:
        items = modality.encode(processor, part, max_length=max_length)
        return modality.nll(model, items, processor=processor, batch_size=batch_size, device="cpu")

    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for training in (True, False):
        model.train(training)
        totals, counts = nll(data.forget, 3)
        assert model.training is training, "scoring leaves the model in another mode"
    assert all(torch.equal(state[name], tensor) for name, tensor in model.state_dict().items()), "scoring changes it"
    assert (totals, counts) == nll(data.forget, 3), "scoring twice gives other losses"
    items = modality.encode(processor, data.forget, max_length=max_length)
    assert len(totals) == len(counts) == len(items), "there is not one loss for each item"
    with torch.no_grad():
        for index in range(len(items)):
            alone = modality.predict(model, modality.collate(items, [index], processor=processor, device="cpu"))
            log_p = torch.log_softmax(alone.logits.double(), dim=-1)
            exact = -log_p.gather(2, alone.labels.clamp(min=0)[..., None])[..., 0][alone.supervised].sum().item()
            assert math.isclose(totals[index], exact, rel_tol=TOLERANCE, abs_tol=1e-4), f"item {index} has another loss"
            assert counts[index] == int(alone.supervised.sum()), f"item {index} has another number of positions"
    classes = modality.classes(model.config)
    evaluator = modality.evaluator(data, processor, classes=classes, max_length=max_length, batch_size=4, device="cpu")
    assert math.isclose(evaluator.random_guess, math.log(classes)), "a random guess is not ln V"
    reported = evaluator.losses(model)
    for name, part in (("forget_loss", data.forget), ("retain_loss", data.retain_eval)):
        sums, numbers = nll(part, 4)
        mean = math.fsum(sums) / sum(numbers)
        assert math.isclose(reported[name], mean, rel_tol=TOLERANCE), (
            f"{name} is {reported[name]}, the items say {mean}"
        )
    agreement = evaluator.retain_agreement
    assert math.isnan(agreement) or 0.0 <= agreement <= 1.0, f"retain_agreement is {agreement}, not a share nor NaN"
    assert isinstance(modality.memorised(evaluator, model), bool), "memorised must return a bool"


def check_folder(modality: Modality, model: PreTrainedModel, processor: Any, examples: Any, *, max_length: int) -> None:
    """Check that a model and its processor give the same losses after saving and loading, and that an incomplete folder
    is reported."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "model"
        save_model(model, processor, folder)
        assert modality.folder_problems(folder) == [], "a saved folder has problems"
        losses = []
        for network, prepared in (
            (model, processor),
            (modality.load_model(folder), modality.load_processor(folder)),
        ):
            items = modality.encode(prepared, examples, max_length=max_length)
            losses.append(modality.nll(network, items, processor=prepared, batch_size=2, device="cpu"))
        assert losses[0] == losses[1], "a model that was saved and loaded gives other losses"
        (folder / "config.json").unlink()
        assert modality.folder_problems(folder), "a folder without config.json has no problem"


@pytest.fixture(scope="module")
def offline() -> dict[str, Made]:
    """Each modality's offline pair: a random model, its processor, and the first of the data."""
    made = {}
    for name, modality in MODALITIES.items():
        data = load_data(modality.offline_dataset, limit=20)
        model, processor = modality.load_base(modality.offline_model, None, data)
        if isinstance(data, UnlearningData):
            few = {part: getattr(data, part)[:6] for part in ("forget", "retain", "full", "forget_eval", "retain_eval")}
            data = replace(data, **few)
        made[name] = (model, processor, data)
    return made


@pytest.mark.parametrize("name", MODALITIES)
def test_every_modality_passes_the_suite(name: str, offline: dict[str, Made]) -> None:
    model, processor, data = offline[name]
    check_modality(MODALITIES[name], model, processor, data, max_length=MAX_LENGTH)
    assert type(modality_of(data)) is type(MODALITIES[name])


def test_language_models_with_another_template_pass_it(offline: dict[str, Made]) -> None:
    model, processor, data = offline["language"]
    modality = modality_of(data, "Q: {question} A: {answer}")
    check_modality(modality, model, processor, data, max_length=MAX_LENGTH)
    plain = modality_of(data).encode(processor, data.forget, max_length=MAX_LENGTH)
    assert modality.encode(processor, data.forget, max_length=MAX_LENGTH) != plain


def test_the_modality_of_an_unknown_data_set_is_language() -> None:
    assert dataset_modality(None).name == dataset_modality("no such data").name == "language"
    assert dataset_modality("cifar-10").name == "vision"
