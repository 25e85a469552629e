"""Transformers loads an exported folder without this project; the model card describes the model and its licence."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest
import torch
import yaml
from click.testing import CliRunner, Result
from transformers import AutoModelForCausalLM, AutoTokenizer

from sweeper.cli.main import main
from sweeper.export.licence import Licence, licence_of
from tests.facts import assert_names
from trainables.models.adapters import add_adapter
from trainables.models.checkpoints import save_model

TAKEN = "00011"
"""The id of the trial that ``pick`` chooses from the golden sweep."""


@pytest.fixture
def models(tiny_phi: Path, tmp_path: Path) -> Path:
    """``base``, a random tiny Phi, and ``adapter``, a LoRA adapter that changes its answers."""
    base = Path(shutil.copytree(tiny_phi, tmp_path / "models" / "base"))
    adapted = add_adapter(AutoModelForCausalLM.from_pretrained(base), rank=2, seed=0)
    with torch.no_grad():
        for name, weights in adapted.named_parameters():
            if "lora_B" in name:
                weights.normal_(std=0.1, generator=torch.Generator().manual_seed(len(name)))
    save_model(adapted, AutoTokenizer.from_pretrained(base), base.with_name("adapter"))
    return base.parent


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


def test_the_card_describes_the_trial_and_how_to_repeat_it(golden: Path, models: Path, tmp_path: Path) -> None:
    assert export(golden, models / "base", tmp_path / "model").exit_code == 0
    found = front_matter(tmp_path / "model")
    assert (found["license"], found["tags"]) == ("unknown", ["machine-unlearning", "gdiff"])
    row = next(line for line in (golden / "trials.csv").read_text().splitlines() if line.startswith(TAKEN))
    facts = (
        *(TAKEN, "lr-study-gdiff-ngdiff-tiny-phi-authors", "python -m sweeper lr-study --lr 3e-5", "torch 2.13.0"),
        *("python -m sweeper unlearn --method gdiff", "| 0.997 |", row.split(",")[1]),  # verbmem of the target, hash
        r"Question: {question}\nAnswer: {answer}",
    )
    assert_names((tmp_path / "model" / "README.md").read_text(), *facts)


def test_the_card_of_a_merged_model_says_what_was_merged_and_how(golden: Path, models: Path, tmp_path: Path) -> None:
    table = pd.read_csv(golden / "trials.csv", dtype=str)
    is_taken = table["trial_id"] == TAKEN
    merged = {
        "phase": "merge",
        "merges": "00000,00016",
        "merge_scale": "1.5",
        "merge_checkpoint": "/base model",
        "method": "mean",
        "lr": None,
        "c": None,
    }
    for name, value in merged.items():
        table.loc[is_taken, name] = value
    table.to_csv(golden / "trials.csv", index=False)
    assert export(golden, models / "base", tmp_path / "model", "--trial", TAKEN).exit_code == 0
    assert front_matter(tmp_path / "model")["tags"] == ["machine-unlearning", "mean"]
    card = (tmp_path / "model" / "README.md").read_text()
    assert_names(
        card,
        f"merge {golden} --rule mean --trial 00000 --trial 00016 --checkpoint '/base model' --scale 1.5",
        "1.5 times the task vectors",
    )
    assert "sweeper unlearn" not in card


@pytest.mark.parametrize("option", ["--copy-to", "--export"])
def test_a_truncated_checkpoint_is_not_handed_over(golden: Path, models: Path, tmp_path: Path, option: str) -> None:
    weights = models / "base" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    shutil.copytree(models / "base", golden / "checkpoints" / TAKEN, dirs_exist_ok=True)
    result = CliRunner().invoke(main, ["pick", str(golden), option, str(tmp_path / "model")])
    assert result.exit_code == 1
    assert_names(result.stderr, TAKEN, "model.safetensors is truncated")
    assert not (tmp_path / "model").exists()


def test_an_adapter_needs_its_base_unless_it_is_merged(golden: Path, models: Path, tmp_path: Path) -> None:
    base, before = models / "base", logits(models / "base")
    result = export(golden, models / "adapter", tmp_path / "adapter")
    assert_names(result.stdout, base, "--merge")
    assert front_matter(tmp_path / "adapter")["library_name"] == "peft"
    assert_names((tmp_path / "adapter" / "README.md").read_text(), base)
    expected = logits(tmp_path / "adapter")

    assert export(golden, models / "adapter", tmp_path / "merged", "--merge").exit_code == 0
    shutil.rmtree(models)
    assert not (tmp_path / "merged" / "adapter_config.json").exists()
    assert front_matter(tmp_path / "merged")["library_name"] == "transformers"
    torch.testing.assert_close(logits(tmp_path / "merged"), expected, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(expected, before, atol=1e-2)

    result = export(golden, tmp_path / "adapter", tmp_path / "again", "--merge")
    assert result.exit_code == 2
    assert_names(result.stderr, base)
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize(
    ("card", "name"),
    [
        ("---\nlicense: mit\ntags: [a]\n---\n# A model", "mit"),
        ("---\nlicense: other\nlicense_name: llama2\n---\n", "llama2"),
        ("# A model without front matter", None),
        ("---\n[torn\n---\n", None),
    ],
)
def test_a_licence_is_read_from_the_models_card(tmp_path: Path, card: str, name: str | None) -> None:
    (tmp_path / "README.md").write_text(card)
    assert licence_of(tmp_path).name == name


def test_licence_files_are_found_and_without_any_the_licence_is_unknown(tmp_path: Path) -> None:
    assert licence_of(None) == licence_of(tmp_path) == Licence()
    (tmp_path / "LICENSE.md").write_text("Do as you please.")
    assert licence_of(tmp_path) == Licence(files=(tmp_path / "LICENSE.md",))
