"""Every modality has the documented properties, checked on a small model."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from trainables.data import DATASETS, TaskData, load_data
from trainables.data.examples import UnlearningData
from trainables.modality import MODALITIES, Modality, modality_of
from trainables.modality.evaluation import evaluate_items
from trainables.models.checkpoints import save_model
from trainables.models.registry import MODELS
from trainables.objectives.base import Reference
from trainables.spec import TrialSpec
from trainables.template import QUESTION_ANSWER

OWN_TEMPLATE = "Q: {question} A: {answer}"
LENGTH = 64


class Made(NamedTuple):
    """A modality with its offline pair: a random model, its processor, and a part of the data."""

    modality: Modality
    model: Any
    processor: Any
    data: TaskData

    def items(self, part: Any) -> Any:
        return self.modality.encode(self.processor, part, max_length=LENGTH)

    def predicted(self, items: Any, indices: list[int]) -> Any:
        batch = self.modality.collate(items, indices, processor=self.processor, device="cpu")
        return self.modality.predict(self.model, batch)

    def nll(self, part: Any, batch_size: int) -> tuple[list[float], list[int]]:
        items = self.items(part)
        found = evaluate_items(self.modality, self.model, items, processor=self.processor, batch_size=batch_size)
        return found.totals.tolist(), found.counts.tolist()


@pytest.fixture(
    scope="module",
    params=[*((name, QUESTION_ANSWER) for name in MODALITIES), ("language", OWN_TEMPLATE)],
    ids=[*MODALITIES, "own template"],
)
def made(request: pytest.FixtureRequest) -> Made:
    name, template = request.param
    data = load_data(MODALITIES[name].offline_dataset, limit=20)
    model, processor = MODALITIES[name].load_base(MODALITIES[name].offline_model, None, data)
    if isinstance(data, UnlearningData):
        few = {part: getattr(data, part)[:6] for part in ("forget", "retain", "full", "forget_eval", "retain_eval")}
        data = replace(data, **few)
    modality = modality_of(data, template)
    assert modality.name == name
    assert (modality == MODALITIES[name]) is (template == QUESTION_ANSWER)
    return Made(modality, model.eval(), processor, data)


@pytest.mark.parametrize("modality", MODALITIES.values(), ids=list(MODALITIES))
def test_a_modalitys_attributes_name_entries_of_the_registries_and_fields_of_a_trial(modality: Modality) -> None:
    model, data = MODELS[modality.offline_model], DATASETS[modality.offline_dataset]
    assert (model.modality, data.modality, model.hub_id, data.files) == (modality.name, modality.name, None, None)
    assert set(modality.unused_fields) <= {field.name for field in fields(TrialSpec)}
    assert set(modality.missing_outputs) <= set(Reference)


def test_losses_do_not_depend_on_the_batches_and_scoring_changes_nothing(made: Made) -> None:
    state = {name: tensor.clone() for name, tensor in made.model.state_dict().items()}
    for training in (True, False):
        made.model.train(training)
        totals, counts = made.nll(made.data.forget, 3)
        assert made.model.training is training
    assert (totals, counts) == made.nll(made.data.forget, 3)
    items = made.items(made.data.forget)
    with torch.no_grad():
        alone = [made.predicted(items, [index]) for index in range(len(items))]
    assert totals == pytest.approx([float(item.nll.sum()) for item in alone], rel=1e-4)
    assert counts == [int(item.supervised.sum()) for item in alone]

    classes = made.modality.classes(made.model.config)
    sizes = {"classes": classes, "max_length": LENGTH, "batch_size": 4}
    evaluator = made.modality.evaluator(made.data, made.processor, device="cpu", **sizes)
    assert evaluator.random_guess == pytest.approx(math.log(classes))
    scores = evaluator.scores(made.model)
    reported = scores.loss_metrics()
    for name, part in (("forget_loss", made.data.forget), ("retain_loss", made.data.retain_eval)):
        sums, numbers = made.nll(part, 4)
        assert reported[name] == pytest.approx(math.fsum(sums) / sum(numbers), rel=1e-4)
    assert 0.0 <= scores.retain_agreement <= 1.0
    assert evaluator.memorised(made.model) is False
    assert all(torch.equal(state[name], tensor) for name, tensor in made.model.state_dict().items())


def test_a_saved_model_has_the_same_losses_and_an_incomplete_folder_has_a_problem(made: Made, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    save_model(made.model, made.processor, folder)
    assert made.modality.folder_problems(folder) == []
    again = made._replace(model=made.modality.load_model(folder), processor=made.modality.load_processor(folder))
    assert again.nll(made.data.forget, 2) == made.nll(made.data.forget, 2)
    prepared = {path.name for path in folder.iterdir()} & {"tokenizer.json", "preprocessor_config.json"}
    for file in ("config.json", "model.safetensors", *prepared):
        (folder / file).rename(tmp_path / file)
        (problem,) = made.modality.folder_problems(folder)
        assert {"model.safetensors": "*.safetensors", "tokenizer.json": "tokenizer"}.get(file, file) in problem
        (tmp_path / file).rename(folder / file)
