"""A model and a data set have settings of their own, unless others are given."""

from __future__ import annotations

import pytest

from tests.sweeper.cli.conftest import resolved
from trainables.models.registry import MODELS, find_model

HUB = {
    "phi-1.5": "microsoft/phi-1_5",
    "falcon-1b": "tiiuae/falcon-rw-1b",
    "gpt2-xl": "openai-community/gpt2-xl",
    "llama2-7b": "meta-llama/Llama-2-7b-hf",
    "mistral-7b": "mistralai/Mistral-7B-v0.1",
}
"""The paper's models."""


@pytest.mark.parametrize("name", HUB)
def test_the_papers_models_have_the_settings_of_its_experiments(name: str) -> None:
    info = MODELS[name]
    assert (info.hub_id, info.dataset, info.recipe.epochs) == (HUB[name], "tofu", 25)
    assert info.recipe.lr in (1e-5, 2e-5)
    assert {info.recipe.batch_size, info.batch_size} <= {16, 32}
    assert info.lr in (1e-5, 5e-5, 1e-4)
    assert info.lr_range[0] < 1e-5 < 1e-4 <= info.lr_range[1]
    assert info.lora_rank == info.recipe.lora_rank == (8 if name.endswith("7b") else None)
    assert info.template == "Question: {question}\nAnswer: {answer}"


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("--model mistral-7b", {"lora_rank": 8, "target_lora_rank": None}),
        ("--model mistral-7b --lora-rank 4", {"lora_rank": 4}),
        ("--model mistral-7b --lora-rank none", {"lora_rank": None}),
        ("--model mistral-7b --target-lora-rank none", {"lora_rank": 8, "target_lora_rank": 0}),
        ("--model gpt2-xl --lora-rank 16", {"lora_rank": 16}),
        # A model from the hub that is not registered is fine-tuned fully.
        ("--model EleutherAI/pythia-1.4b", {"dataset": "tofu", "lora_rank": None, "batch_size": 32}),
        ("--model tiny-phi", {"max_length": 512}),
        ("--model tiny-phi --dataset muse-books", {"max_length": 2048}),
        ("--model tiny-phi --dataset muse-books --max-length 256", {"max_length": 256}),
    ],
)
def test_a_model_and_a_data_set_have_their_own_settings_unless_others_are_given(
    monkeypatch: pytest.MonkeyPatch, typed: str, expected: dict[str, object]
) -> None:
    asked: list[tuple[str, str]] = []
    monkeypatch.setattr("sweeper.checks.hub.hub_problems", lambda wanted: asked.extend(wanted) or [])
    spec = resolved("pareto", *typed.split()).base
    assert {name: getattr(spec, name) for name in expected} == expected
    assert dict(asked).get("model") == find_model(spec.model).hub_id, "the hub is asked for the model"
