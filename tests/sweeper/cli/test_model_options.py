"""What ``--model`` and ``--optimizer`` make of a run's spec: their own settings, unless others are given."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sweeper.cli.conftest import invoke, json_of, names, problems_of, resolved, specs_of
from trainables.models.registry import MODELS, find_model
from trainables.optimizers import LR_FREE
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
pytestmark = pytest.mark.usefixtures("planned_only")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The repositories that a hub with every model was asked for."""
    found: list[tuple[str, str]] = []
    monkeypatch.setattr("sweeper.checks.hub.hub_problems", lambda wanted: found.extend(wanted) or [])
    return found


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
    ("typed", "ranks"),
    [
        ("--model mistral-7b", (8, None)),
        ("--model mistral-7b --lora-rank 4", (4, None)),
        ("--model mistral-7b --lora-rank 0", (None, None)),
        ("--model mistral-7b --lora-rank none", (None, None)),
        ("--model gpt2-xl", (None, None)),
        ("--model gpt2-xl --lora-rank 16", (16, None)),
        ("--model mistral-7b --target-lora-rank none", (8, 0)),
        ("--model mistral-7b --target-lora-rank 4", (8, 4)),
    ],
)
@pytest.mark.usefixtures("asked")
def test_the_rank_of_adapters_is_the_models_unless_given(typed: str, ranks: tuple[int | None, int | None]) -> None:
    spec = resolved("pareto", *typed.split()).base
    assert (spec.lora_rank, spec.target_lora_rank) == ranks
    assert not trial_problems(spec)


def test_a_hub_id_is_a_model_with_full_fine_tuning(asked: list[tuple[str, str]]) -> None:
    spec = resolved("pareto", "--model", "EleutherAI/pythia-1.4b").base
    assert (spec.model, spec.dataset, spec.lora_rank) == ("EleutherAI/pythia-1.4b", "tofu", None)
    assert (spec.batch_size, spec.eval_batch_size) == (MODELS["phi-1.5"].batch_size, MODELS["phi-1.5"].eval_batch_size)
    assert ("model", "EleutherAI/pythia-1.4b") in asked


# Learning-rate-free optimizers ---------------------------------------------------------------------------------------


def specs(out: Path, *arguments: object, trials: int = 20) -> list[TrialSpec]:
    """The first trials of a sweep on the default data."""
    result = invoke("pareto", "--out", out, *arguments)
    assert result.exit_code == 0, result.output
    return specs_of(out, trials)


@pytest.mark.parametrize("name", LR_FREE)
def test_a_sweep_searches_the_multiplier_around_1_with_the_given_cap(name: str, out: Path) -> None:
    found = specs(out, "--optimizer", name, "--growth-rate", "1.05")
    assert {(spec.optimizer, spec.d_growth) for spec in found} == {(name, 1.05)}
    assert 0.1 <= min(spec.lr for spec in found) < 0.5 < 2.0 < max(spec.lr for spec in found) <= 10.0


@pytest.mark.parametrize(
    ("typed", "text", "expected"),
    [
        ("--space paper --optimizer prodigy", "", {("prodigy", 1.0, None)}),
        ("--space paper --optimizer prodigy --lr 0.25", "", {("prodigy", 0.25, None)}),
        ("--space space.yaml --optimizer prodigy", "", {("prodigy", 1.0, None)}),
        ("--space space.yaml --optimizer adamw", "", {("adamw", find_model("tiny-phi").lr, None)}),
        (
            "--space space.yaml",
            "optimizer: [dog, dowg]\nlr: [1]\nd_growth: [1.1, 1.3]\n",
            {(name, 1.0, growth) for name in ("dog", "dowg") for growth in (1.1, 1.3)},
        ),
    ],
)
def test_the_rate_is_the_multiplier_1_or_the_models_rate_unless_given(
    typed: str, text: str, expected: set[tuple[str, float, float | None]], out: Path
) -> None:
    Path("space.yaml").write_text("method: [gdiff, ngdiff]\n" + text)
    has_cap = "d_growth" in text
    found = specs(out, *typed.split(), trials=40)
    assert {(spec.optimizer, spec.lr, spec.d_growth if has_cap else None) for spec in found} == expected


def test_auto_lr_is_excluded_by_every_one_of_them(out: Path) -> None:
    assert {row["name"] for row in json_of("list", "optimizers") if row["AutoLR"] != "yes"} == set(LR_FREE)
    for name in LR_FREE:
        (problem,) = problems_of(invoke("pareto", "--out", out, "--optimizer", name, "--auto-lr", "on"))
        assert names(problem, ["AutoLR", name])
