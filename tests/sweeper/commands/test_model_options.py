"""What ``--model`` and its companions make of a run's spec: the model's own settings, unless told otherwise."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sweeper.cli import main
from sweeper.commands.hub_check import hub_problems
from sweeper.folder import read_settings
from trainables.models.registry import MODELS
from trainables.models.tiny import TWINS
from trainables.spec import TrialSpec
from trainables.spec_checks import trial_problems

LocalHub = Any  # tests/conftest.py has the class
FULL = ("phi-1.5", "falcon-1b", "gpt2-xl")
SEVEN_BILLION = ("llama2-7b", "mistral-7b")


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """``pareto`` with these arguments; nothing is run and no hub is asked."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sweeper.commands.pareto.run_to_the_end", lambda out, as_json, change=None: None)
    monkeypatch.setattr(
        "sweeper.commands.hub_check.hub_problems", lambda repositories: asked.extend(repositories) or []
    )
    asked: list[tuple[str, str]] = []

    def command(*arguments: str | Path) -> Result:
        given = ["pareto", "--out", "out", "--tracking-uri", "sqlite:///m.db", *map(str, arguments)]
        result = CliRunner().invoke(main, given)
        result.asked = list(asked)  # type: ignore[attr-defined]
        return result

    return command


@pytest.fixture
def spec_of(invoke: Callable[..., Result]) -> Callable[..., TrialSpec]:
    """What does not vary in the sweep these arguments describe."""

    def command(*arguments: str | Path) -> TrialSpec:
        result = invoke(*arguments)
        assert result.exit_code == 0, result.output
        return read_settings(Path("out")).base

    return command


def problem_of(result: Result) -> str:
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.splitlines()
    return line.removeprefix("error: ")


# The paper's settings, as its section on experiments gives them ------------------------------------------------------


@pytest.mark.parametrize("name", [*FULL, *SEVEN_BILLION])
def test_the_papers_models_have_the_papers_settings(name: str) -> None:
    info = MODELS[name]
    assert info.dataset == "tofu"
    assert info.recipe.epochs == 25
    assert info.recipe.lr in (1e-5, 2e-5)
    assert info.recipe.batch_size in (16, 32)
    assert info.batch_size in (16, 32)
    assert info.lr in (1e-5, 5e-5, 1e-4)
    assert info.lr_range[0] < 1e-5 < 1e-4 <= info.lr_range[1]
    assert info.lora_rank == info.recipe.lora_rank == (8 if name in SEVEN_BILLION else None)
    assert info.template == "Question: {question}\nAnswer: {answer}"


def test_the_papers_models_come_from_their_makers() -> None:
    assert {name: MODELS[name].hub_id for name in (*FULL, *SEVEN_BILLION)} == {
        "phi-1.5": "microsoft/phi-1_5",
        "falcon-1b": "tiiuae/falcon-rw-1b",
        "gpt2-xl": "openai-community/gpt2-xl",
        "llama2-7b": "meta-llama/Llama-2-7b-hf",
        "mistral-7b": "mistralai/Mistral-7B-v0.1",
    }


def test_every_model_without_a_hub_is_made_here_on_data_that_are_made_here() -> None:
    assert {name for name, info in MODELS.items() if info.hub_id is None and info.dataset == "authors"} == set(TWINS)


# Adapters ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "rank"),
    [
        (["--model", "mistral-7b"], 8),
        (["--model", "llama2-7b"], 8),
        (["--model", "mistral-7b", "--lora-rank", "4"], 4),
        (["--model", "mistral-7b", "--lora-rank", "0"], None),
        (["--model", "mistral-7b", "--lora-rank", "none"], None),
        (["--model", "gpt2-xl"], None),
        (["--model", "gpt2-xl", "--lora-rank", "16"], 16),
        (["--model", "gpt2-xl", "--lora-rank", "none"], None),
        (["--model", "tiny-llama"], None),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_the_rank_is_the_models_unless_given(
    spec_of: Callable[..., TrialSpec], arguments: list[str], rank: int | None
) -> None:
    spec = spec_of(*arguments)
    assert (spec.lora_rank, spec.target_lora_rank) == (rank, None)
    assert not trial_problems(spec)


@pytest.mark.parametrize(("given", "rank"), [("none", 0), ("0", 0), ("4", 4)])
def test_the_targets_rank_is_an_option_of_its_own(
    spec_of: Callable[..., TrialSpec], given: str, rank: int | None
) -> None:
    spec = spec_of("--model", "mistral-7b", "--target-lora-rank", given)
    assert (spec.lora_rank, spec.target_lora_rank) == (8, rank)
    assert not trial_problems(spec)


def test_a_rank_that_is_none_is_told(invoke: Callable[..., Result]) -> None:
    assert "--lora-rank must be a whole number, got 'few'" in problem_of(invoke("--lora-rank", "few"))


# Names, hub ids, folders ---------------------------------------------------------------------------------------------


def test_a_hub_id_is_a_model_with_the_papers_full_fine_tuning(
    invoke: Callable[..., Result], spec_of: Callable[..., TrialSpec]
) -> None:
    spec = spec_of("--model", "EleutherAI/pythia-1.4b")
    assert (spec.model, spec.dataset, spec.lora_rank) == ("EleutherAI/pythia-1.4b", "tofu", None)
    assert (spec.batch_size, spec.eval_batch_size) == (MODELS["phi-1.5"].batch_size, MODELS["phi-1.5"].eval_batch_size)
    asked = invoke("--model", "EleutherAI/pythia-1.4b", "--out", "second").asked  # type: ignore[attr-defined]
    assert ("model", "EleutherAI/pythia-1.4b") in asked


@pytest.mark.parametrize("name", ["gpt-9", "/etc", "a/b/c", "org/", ""])
def test_what_is_no_name_and_no_hub_id_is_refused_with_the_choices(invoke: Callable[..., Result], name: str) -> None:
    problem = problem_of(invoke("--model", name))
    assert f"unknown model '{name}'" in problem
    for choice in ("tiny-phi", "llama2-7b", "ORGANISATION/NAME", "--model-path"):
        assert choice in problem


def test_a_folder_given_as_a_name_is_told_where_it_belongs(invoke: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "models" / "mine").mkdir(parents=True)
    assert "give it with --model-path models/mine" in problem_of(invoke("--model", "models/mine"))


def test_a_torn_file_in_a_given_folder_is_told_before_anything_starts(
    invoke: Callable[..., Result], tmp_path: Path
) -> None:
    folder = tmp_path / "torn"
    folder.mkdir()
    for name in ("config.json", "tokenizer.json"):
        (folder / name).write_text("{}")
    (folder / "model.safetensors").write_bytes((1000).to_bytes(8, "little") + b"{}")
    for flag in ("--model-path", "--target-path"):
        problem = problem_of(invoke(flag, folder, "--dataset", "authors"))
        assert problem.startswith(f"{flag} {folder}: model.safetensors is not whole")


def test_an_id_the_hub_has_not_is_one_sentence(local_hub: LocalHub) -> None:
    (problem,) = hub_problems([("model", "nobody/nothing")])
    assert "nobody/nothing" in problem
    assert "does not exist" in problem


def test_the_listing_says_what_a_model_trains_with() -> None:
    rows = {row["name"]: row for row in json.loads(CliRunner().invoke(main, ["list", "models", "--json"]).stdout)}
    assert set(rows) >= {*TWINS, *FULL, *SEVEN_BILLION}
    assert rows["mistral-7b"]["trains"] == "LoRA of rank 8"
    assert rows["gpt2-xl"]["trains"] == "all weights"
    assert rows["phi-1.5"]["learning rate"] == "1e-05, searched from 1e-06 to 0.0001"
