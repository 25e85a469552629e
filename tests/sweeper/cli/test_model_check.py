"""Models that are incomplete or do not fit the data are refused before any work, with exit code 2."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from tests.sweeper.cli.conftest import invoke, problems_of

AUTHORS = ("--dataset", "authors", "--limit", 20)


@pytest.fixture
def damaged(tiny_phi: Path, tmp_path: Path) -> Path:
    """A model without the weights of its last layer."""
    folder = Path(shutil.copytree(tiny_phi, tmp_path / "damaged"))
    weights = {name: item for name, item in load_file(folder / "model.safetensors").items() if "layers.3." not in name}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def commands(folder: Path, other: Path) -> dict[str, tuple[object, ...]]:
    sweep = ("pareto", "--method", "gdiff", *AUTHORS)
    run = ("unlearn", "--method", "gdiff", *AUTHORS)
    return {
        "target": (*sweep, "--target-path", folder),
        "base": (*sweep, "--model-path", folder),
        "retain": (*sweep, "--target-path", other, "--retain-model", folder),
        "run": (*run, "--target-path", folder),
        "dry run": (*run, "--model-path", folder, "--dry-run"),
        "target command": ("target", *AUTHORS, "--model-path", folder),
        "evaluate": ("evaluate", *AUTHORS, "--model-path", folder),
    }


@pytest.mark.parametrize("name", commands(Path(), Path()))
def test_a_model_with_missing_weights_is_refused(name: str, damaged: Path, tiny_phi: Path) -> None:
    (problem,) = problems_of(invoke(*commands(damaged, tiny_phi)[name]))
    assert f"{damaged}: 14 of 61 weights are missing: model.layers.3." in problem


def short_of_rows(folder: Path) -> None:
    """Give the tokenizer a new token that every answer needs."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens([f"<{number}>" for number in range(2048 - len(tokenizer))])
    tokenizer.add_special_tokens({"eos_token": "<end>"})
    tokenizer.save_pretrained(folder)


def of_another_architecture(folder: Path) -> None:
    content = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**content, "model_type": "t5"}))


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (short_of_rows, ["2048 rows", "'<end>' (id 2048)"]),
        (of_another_architecture, ["cannot load the model", "T5Config"]),
    ],
)
def test_a_model_that_does_not_fit_is_refused(
    edit: Callable[[Path], None], expected: list[str], tiny_phi: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(tiny_phi, tmp_path / "model"))
    edit(folder)
    (problem,) = problems_of(invoke("unlearn", "--method", "gdiff", *AUTHORS, "--target-path", folder))
    assert str(folder) in problem
    assert [text for text in expected if text not in problem] == []


def test_a_prefix_of_the_weights_names_is_ignored_and_reported(tiny_phi: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_phi, tmp_path / "compiled"))
    weights = {f"_orig_mod.{name}": item for name, item in load_file(folder / "model.safetensors").items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    command = ("evaluate", *AUTHORS, "--json", "--metrics", "probability")
    plain, compiled = (invoke(*command, "--model-path", path) for path in (tiny_phi, folder))
    assert compiled.stderr == plain.stderr + f"note: {folder}: ignored in the names of the weights: _orig_mod.\n"
    assert json.loads(compiled.stdout) == json.loads(plain.stdout)
