"""Help, defaults, lists and wrong usage: nothing here trains anything."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.contract.problem import Problem
from tests.contract.product import ROOT, Finished, Product

PROMISED_COMMANDS = {
    *("pareto", "lr-study", "compare", "resume", "report", "pick", "target", "unlearn"),
    *("evaluate", "list", "doctor", "ui", "status", "stop", "config", "cache"),
}
COMMON_OPTIONS = """
--method --model --dataset --trials --sampler --scheduler --candidates --c --lr --auto-lr --interpolate --seeds --epochs
--batch-size --optimizer --lora-rank --objectives --constraint --metrics --gpus-per-trial --cpus-per-trial
--max-concurrent --address --storage --out --tracking-uri --data-dir --model-path --target-path --time-budget
--epoch-budget --enqueue --warm-start --reuse --until --seed --json --dry-run --space --plugin --config
"""


def commands_of_readme() -> set[str]:
    """The first words in the first column of README's table of commands."""
    _, _, table = (ROOT / "README.md").read_text().partition("| command |")
    rows = [line for line in table.partition("\n\n")[0].splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`([a-z-]+)[^`]*`", row.split("|")[1])}


# Help -----------------------------------------------------------------------------------------------------------------


def test_readme_lists_every_promised_command() -> None:
    assert commands_of_readme() >= PROMISED_COMMANDS


def test_the_help_lists_every_command(product: Product) -> None:
    listed = set(re.findall(r"^  ([a-z-]+)  ", product.run("--help").stdout, re.MULTILINE))
    assert listed >= PROMISED_COMMANDS | commands_of_readme()


def test_help_of_pareto_lists_the_common_options(product: Product) -> None:
    listed = set(re.findall(r"--[a-z-]+", product.run("pareto", "--help").stdout))
    assert not set(COMMON_OPTIONS.split()) - listed


# Defaults -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def default_plan(product: Product, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path, Path]:
    """The dry run of a sweep without any setting, its cache (empty before) and its output folder."""
    cache, out = tmp_path_factory.mktemp("empty-cache"), tmp_path_factory.mktemp("plans") / "default"
    done = product.run("pareto", "--dry-run", "--json", "--out", out, XDG_CACHE_HOME=str(cache))
    return done.json, cache, out


def test_the_defaults_are_the_documented_ones(default_plan: tuple[Any, Path, Path]) -> None:
    plan, _, _ = default_plan
    expected = {"model": "tiny-phi", "dataset": "authors", "sampler": "tpe", "candidates": "all", "auto_lr": "off"}
    expected |= {"objectives": "forget_loss:max,retain_loss:min", "seed": 0, "seeds": 1}
    assert {name: plan["settings"][name] for name in expected} == expected
    assert set(re.findall(r"[a-z+]+", str(plan["settings"]["method"]))) == {"gdiff", "ngdiff", "undial+ngdiff"}
    assert plan["trials"] == 32


def test_a_dry_run_trains_nothing_and_writes_no_weights(default_plan: tuple[Any, Path, Path]) -> None:
    _, cache, out = default_plan
    assert not [path for path in cache.rglob("*") if path.suffix in {".safetensors", ".bin", ".pt", ".pth", ".ckpt"}]
    assert not out.exists()


# Lists ----------------------------------------------------------------------------------------------------------------

NAMES = {
    "methods": "gd ga gdiff ngdiff pcgrad npo dpo rmu",
    "optimizers": "adamw sgd prodigy dadapt-adam dog dowg",
    "models": "tiny-phi tiny-falcon tiny-gpt2 tiny-llama tiny-mistral phi-1.5 falcon-1b gpt2-xl llama2-7b mistral-7b "
    "tiny-resnet resnet-50",
    "datasets": "authors digits jsonl tofu muse-news muse-books cifar-10 cifar-100",
    "metrics": "forget_loss retain_loss forget_loss_capped verbmem utility truth_ratio "
    "forget_repetition retain_repetition forget_longest_loop retain_longest_loop",
    "templates": "chat",
}
"""What README names, at least."""


@pytest.mark.parametrize("kind", NAMES)
def test_list_names_what_readme_names(product: Product, kind: str) -> None:
    entries = json.loads(product.run("list", kind, "--json").stdout)
    assert {entry["name"] for entry in entries} >= set(NAMES[kind].split())
    if kind in {"methods", "optimizers", "metrics"}:
        assert all(entry["citation"] for entry in entries)


def test_doctor_knows_the_versions_of_this_machine(product: Product) -> None:
    import torch

    found = product.run("doctor", "--json").json
    assert found["versions"]["torch"] == torch.__version__
    assert found["cpus"] >= 1


# Wrong usage ----------------------------------------------------------------------------------------------------------

WRONG = (
    "--method wizardry --sampler guesswork --trials 0 --epochs several --lr -1 --objectives wealth:max "
    "--dataset atlantis --optimizer rocket"
)


def test_all_wrong_options_are_named_at_once_and_nothing_is_written(product: Product, tmp_path: Path) -> None:
    """The message has a wrong name as it was typed, and the option of a wrong number."""
    before = {path.name for path in product.folder.iterdir()} | {"cache"}
    typed = WRONG.split()
    done = product.run("pareto", *typed, "--out", tmp_path / "out", code=2)
    for option, value in zip(typed[::2], typed[1::2], strict=True):
        named = option.strip("-").replace("-", "[-_]") if value in {"0", "-1"} else value.partition(":")[0]
        assert re.search(rf"\b{named}\b", done.stderr), f"{option} {value} is not named in\n{done.stderr}"
    assert done.stdout == ""
    assert not (tmp_path / "out").exists()
    assert {path.name for path in product.folder.iterdir()} | {"cache"} == before


@pytest.mark.parametrize("words", ["nowhere", "pareto --nowhere 3", "list nowhere"])
def test_what_does_not_exist_is_wrong_usage(product: Product, words: str) -> None:
    assert "nowhere" in product.run(*words.split(), code=2).stderr


def test_without_the_hub_a_model_from_it_is_refused_with_the_ways_on(product: Product, tmp_path: Path) -> None:
    done = product.run("pareto", "--method", "gdiff", "--model", "phi-1.5", "--out", tmp_path / "out", code=2)
    assert "--model-path" in done.stderr
    assert "--data-dir" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.ray
def test_a_bad_cell_of_a_foreign_table_is_named_by_file_column_and_row(
    product: Product, reference: Finished, tmp_path: Path
) -> None:
    table = tmp_path / "published.csv"
    table.write_text("method,forget_loss,retain_loss\nours,4.0,0.5\ntheirs,much,0.5\n")
    done = product.run("report", reference.sweep.out, table, "--out", tmp_path / "out", code=2)
    assert table.name in done.stderr
    assert "forget_loss" in done.stderr
    assert re.search(r"\b3\b", done.stderr), "the line of the file"
    assert "much" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.ray
def test_a_sweep_is_never_overwritten(product: Product, problem: Problem, reference: Finished) -> None:
    before = reference.sweep.lines()
    done = product.run(*product.pareto(problem.options, reference.sweep.out, "--trials", "1"), code=2)
    assert str(reference.sweep.out) in done.stderr
    assert reference.sweep.lines() == before
