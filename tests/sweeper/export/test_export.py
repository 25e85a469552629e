"""Transformers loads an exported folder without this project, and the model card describes the model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
import yaml
from click.testing import CliRunner, Result
from transformers import AutoModelForCausalLM, AutoTokenizer

from sweeper.cli.main import main
from trainables.data import load_data
from trainables.models.adapters import add_adapter
from trainables.models.checkpoints import save_model
from trainables.models.tiny import make_tiny, tokenizer_for

TAKEN = "00011"
"""The id of the trial that ``pick`` chooses from the golden sweep."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``base``, a random tiny Phi, and ``adapter``, a LoRA adapter that changes its answers."""
    folder = tmp_path_factory.mktemp("models")
    tokenizer = tokenizer_for("tiny-phi", load_data("authors", limit=20).full)
    save_model(make_tiny("tiny-phi", tokenizer), tokenizer, folder / "base")
    adapted = add_adapter(AutoModelForCausalLM.from_pretrained(folder / "base"), rank=2, seed=0)
    with torch.no_grad():
        for name, weights in adapted.named_parameters():
            if "lora_B" in name:
                weights.normal_(std=0.1, generator=torch.Generator().manual_seed(len(name)))
    save_model(adapted, tokenizer, folder / "adapter")
    return folder


@pytest.fixture(autouse=True)
def _no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def export(golden: Path, checkpoint: Path, out: Path, *arguments: str) -> Result:
    shutil.copytree(checkpoint, golden / "checkpoints" / TAKEN, dirs_exist_ok=True)
    result = CliRunner().invoke(main, ["pick", str(golden), "--export", str(out), *arguments])
    assert not isinstance(result.exception, AssertionError), result.exception
    return result


def logits(folder: Path) -> torch.Tensor:
    """Return the logits of a model folder, loaded only with transformers."""
    tokens = AutoTokenizer.from_pretrained(folder)("Question: Who wrote it?\nAnswer:", return_tensors="pt")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        found: torch.Tensor = model(**tokens).logits
    return found


def front_matter(folder: Path) -> dict[str, object]:
    found: dict[str, object] = yaml.safe_load((folder / "README.md").read_text().split("---")[1])
    return found


def test_a_whole_model_is_copied_with_a_card_even_with_merge(golden: Path, models: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "model"
    result = export(golden, models / "base", out, "--merge")
    assert result.exit_code == 0, result.output
    assert str(out) in result.stdout
    assert torch.equal(logits(out), logits(models / "base"))
    assert front_matter(out) == {
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "license": "unknown",
        "tags": ["machine-unlearning", "gdiff"],
    }
    card = (out / "README.md").read_text()
    row = next(line for line in (golden / "trials.csv").read_text().splitlines() if line.startswith(TAKEN))
    facts = (
        *(TAKEN, "lr-study-gdiff-ngdiff-tiny-phi-authors", "python -m sweeper lr-study --lr 3e-5", "torch 2.13.0"),
        *("python -m sweeper unlearn --method gdiff", "| 0.997 |", row.split(",")[1]),  # verbmem of the target, hash
        r"Question: {question}\nAnswer: {answer}",
    )
    assert [fact for fact in facts if fact not in card] == []


def test_an_adapter_needs_its_base_unless_it_is_merged(golden: Path, models: Path, tmp_path: Path) -> None:
    moved = Path(shutil.copytree(models, tmp_path / "models"))
    config = moved / "adapter" / "adapter_config.json"
    content = json.loads(config.read_text()) | {"base_model_name_or_path": str(moved / "base")}
    config.write_text(json.dumps(content))

    result = export(golden, moved / "adapter", tmp_path / "adapter")
    assert str(moved / "base") in result.stdout
    assert "--merge" in result.stdout
    assert front_matter(tmp_path / "adapter")["library_name"] == "peft"
    assert str(moved / "base") in (tmp_path / "adapter" / "README.md").read_text()
    expected = logits(tmp_path / "adapter")

    assert export(golden, moved / "adapter", tmp_path / "merged", "--merge").exit_code == 0
    shutil.rmtree(moved)
    assert not (tmp_path / "merged" / "adapter_config.json").exists()
    assert front_matter(tmp_path / "merged")["library_name"] == "transformers"
    torch.testing.assert_close(logits(tmp_path / "merged"), expected, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(expected, logits(models / "base"), atol=1e-2)

    result = export(golden, tmp_path / "adapter", tmp_path / "again", "--merge")
    assert result.exit_code == 2
    assert str(moved / "base") in result.stderr
    assert not (tmp_path / "again").exists()
