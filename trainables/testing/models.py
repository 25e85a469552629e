"""Check your own model in a test: ``check_model(MINE)``."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from trainables.data import DATASETS
from trainables.modality import MODALITIES
from trainables.modality.evaluation import evaluate_items
from trainables.models.registry import ModelInfo


def check_model(info: ModelInfo) -> None:
    """Check that a model's fields are consistent. If the field ``make`` is set, also check the models that it creates.

    A created model must depend only on its seed, must survive saving and loading, and must have finite losses. An
    item's loss must not depend on the other items in its batch.

    Raises:
        AssertionError: a check failed; the message says which.
    """
    assert info.description, "the description is empty"
    assert info.dataset in DATASETS, f"unknown data set '{info.dataset}': expected one of {', '.join(DATASETS)}"
    data_modality = DATASETS[info.dataset].modality
    assert info.modality in (None, data_modality), (
        f"data set {info.dataset} is for {data_modality} models, but this is a {info.modality} model"
    )
    low, high = info.lr_range
    assert 0 < low <= info.lr <= high, f"the learning rate {info.lr:g} must lie in the range {low:g} to {high:g}"
    assert min(info.batch_size, info.eval_batch_size, info.recipe.batch_size, info.recipe.epochs) >= 1, (
        "batch sizes and epochs must be at least 1"
    )
    assert info.recipe.lr > 0, f"the recipe's learning rate must be greater than 0, got {info.recipe.lr:g}"
    if info.make is not None:
        _check_created_models(info)


def _check_created_models(info: ModelInfo) -> None:
    import torch

    from trainables.models.checkpoints import write_model

    data: Any = DATASETS[info.dataset].load()
    modality = MODALITIES[data.modality]

    def make_model(seed: int) -> tuple[Any, Any]:
        assert info.make is not None, "check_model checks this"
        with tempfile.TemporaryDirectory() as folder, torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            write_model(*info.make(data, seed), Path(folder))
            return modality.load_base(info.name, Path(folder), data, seed=seed)

    def same_weights(first: Any, second: Any) -> bool:
        return all(map(torch.equal, first.state_dict().values(), second.state_dict().values()))

    model, processor = make_model(0)
    repeated, _ = make_model(0)
    other, _ = make_model(1)
    assert same_weights(model, repeated), "two models with the same seed must have the same weights"
    assert not same_weights(model, other), "two seeds give the same weights: draw the weights from torch's global RNG"
    items = modality.encode(processor, data.forget, max_length=128)
    batched = evaluate_items(modality, model, items, processor=processor, batch_size=8).totals
    single = evaluate_items(modality, model, items, processor=processor, batch_size=1).totals
    assert all(0 <= total < float("inf") for total in batched), "the model's loss on the data is not finite"
    assert all(abs(first - other) <= 1e-3 * (1 + first) for first, other in zip(single, batched, strict=True)), (
        "an item's loss depends on the batch: a token must not depend on later tokens, such as padding"
    )
