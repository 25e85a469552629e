"""Every modality passes the suite, which names a broken promise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from trainables.data import TaskData, load_data
from trainables.data.examples import UnlearningData
from trainables.modality import MODALITIES, dataset_modality, modality_of
from trainables.modality.language import Language
from trainables.predictions import Predictions
from trainables.testing.modalities import check_modality

MAX_LENGTH = 64
Made = tuple[PreTrainedModel, Any, TaskData]


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


# Broken promises -----------------------------------------------------------------------------------------------------


class _HalfTheLoss(Language):
    """Its losses are not those of its logits."""

    __slots__ = ()

    def predict(self, model: PreTrainedModel, batch: Any) -> Predictions:
        found = super().predict(model, batch)
        return Predictions(found.logits, found.labels, found.nll / 2, found.supervised)


class _LeavesEvalMode(Language):
    __slots__ = ()

    def nll(self, model: PreTrainedModel, items: Any, **named: Any) -> tuple[list[float], list[int]]:
        found = super().nll(model, items, **named)
        model.eval()
        return found


class _CountsPadding(Language):
    """Losses depend on who else is in the batch."""

    __slots__ = ()

    def nll(self, model: PreTrainedModel, items: Any, **named: Any) -> tuple[list[float], list[int]]:
        totals, counts = super().nll(model, items, **named)
        return totals, [max(counts)] * len(counts)


class _ForgetsAnItem(Language):
    __slots__ = ()

    def lengths(self, items: Any) -> list[int]:
        return super().lengths(items)[1:]


class _AnotherProcessor(Language):
    """What it loads is not what was saved."""

    __slots__ = ()

    def load_processor(self, folder: Path | str) -> Any:
        loaded = super().load_processor(folder)
        loaded.eos_token = loaded.pad_token
        return loaded


class _AnyFolder(Language):
    __slots__ = ()

    def folder_problems(self, folder: Path, *, processor: bool = True) -> list[str]:
        return []


class _NeedsANetwork(Language):
    __slots__ = ()
    offline_model = "phi-1.5"


class _UnknownField(Language):
    __slots__ = ()
    unused_fields = MappingProxyType({"rank": "there is none"})


BROKEN: Sequence[tuple[type[Language], str]] = (
    (_HalfTheLoss, "nll is not -log p"),
    (_LeavesEvalMode, "another mode"),
    (_CountsPadding, "another number of positions"),
    (_ForgetsAnItem, "6 items have 5 lengths"),
    (_AnotherProcessor, "gives other losses"),
    (_AnyFolder, "without config.json"),
    (_NeedsANetwork, "phi-1.5 needs a network"),
    (_UnknownField, r"a trial has no fields \['rank'\]"),
)


@pytest.mark.parametrize(("kind", "fact"), BROKEN, ids=[kind.__name__ for kind, _ in BROKEN])
def test_a_broken_promise_is_named(kind: type[Language], fact: str, offline: dict[str, Made]) -> None:
    model, processor, data = offline["language"]
    with pytest.raises(AssertionError, match=fact):
        check_modality(kind(), model, processor, data, max_length=MAX_LENGTH)
    assert torch.is_grad_enabled()
