"""What ``--model`` and its companions make of a run's spec: the model's own settings, unless others are given."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.store.folder import read_settings
from tests.sweeper.cli.conftest import invoke, json_of
from trainables.models.registry import MODELS
from trainables.models.tiny import TWINS
from trainables.spec import TrialSpec
from trainables.spec_checks import trial_problems

HUB = {
    "phi-1.5": "microsoft/phi-1_5",
    "falcon-1b": "tiiuae/falcon-rw-1b",
    "gpt2-xl": "openai-community/gpt2-xl",
    "llama2-7b": "meta-llama/Llama-2-7b-hf",
    "mistral-7b": "mistralai/Mistral-7B-v0.1",
}
"""The paper's models."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The repositories that the hub, which has everything, was asked for."""
    found: list[tuple[str, str]] = []
    monkeypatch.setattr("sweeper.checks.hub.hub_problems", lambda wanted: found.extend(wanted) or [])
    return found


def spec_of(*arguments: str) -> TrialSpec:
    """What does not vary in the sweep that these arguments begin."""
    result = invoke("pareto", "--out", "out", "--tracking-uri", "sqlite:///m.db", *arguments)
    assert result.exit_code == 0, result.output
    return read_settings(Path("out")).base


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


def test_models_without_a_hub_are_made_here_on_generated_data() -> None:
    assert {name for name, info in MODELS.items() if info.hub_id is None and info.dataset == "authors"} == set(TWINS)


@pytest.mark.parametrize(
    ("typed", "ranks"),
    [
        ("--model mistral-7b", (8, None)),
        ("--model llama2-7b", (8, None)),
        ("--model mistral-7b --lora-rank 4", (4, None)),
        ("--model mistral-7b --lora-rank 0", (None, None)),
        ("--model mistral-7b --lora-rank none", (None, None)),
        ("--model gpt2-xl", (None, None)),
        ("--model gpt2-xl --lora-rank 16", (16, None)),
        ("--model tiny-llama", (None, None)),
        ("--model mistral-7b --target-lora-rank none", (8, 0)),
        ("--model mistral-7b --target-lora-rank 4", (8, 4)),
    ],
)
@pytest.mark.usefixtures("asked", "planned_only")
def test_the_rank_of_adapters_is_the_models_unless_given(typed: str, ranks: tuple[int | None, int | None]) -> None:
    spec = spec_of(*typed.split())
    assert (spec.lora_rank, spec.target_lora_rank) == ranks
    assert not trial_problems(spec)


@pytest.mark.usefixtures("planned_only")
def test_a_hub_id_is_a_model_with_full_fine_tuning(asked: list[tuple[str, str]]) -> None:
    spec = spec_of("--model", "EleutherAI/pythia-1.4b")
    assert (spec.model, spec.dataset, spec.lora_rank) == ("EleutherAI/pythia-1.4b", "tofu", None)
    assert (spec.batch_size, spec.eval_batch_size) == (MODELS["phi-1.5"].batch_size, MODELS["phi-1.5"].eval_batch_size)
    assert ("model", "EleutherAI/pythia-1.4b") in asked


def test_the_list_of_models_has_what_each_trains_with() -> None:
    rows = {row["name"]: row for row in json_of("list", "models")}
    assert set(rows) >= {*TWINS, *HUB}
    assert "8" in rows["mistral-7b"]["trains"]
    assert "LoRA" not in rows["gpt2-xl"]["trains"]
    assert "1e-05" in rows["phi-1.5"]["learning rate"]
