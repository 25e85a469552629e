"""The command ``merge``: what is refused before work."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import Mock

import pytest
from rich.console import Console

from sweeper.merging import PLAN, merge, planned_merge
from sweeper.settings.options import MergeOptions
from sweeper.settings.sources import from_python
from tests.sweeper.cli.conftest import invoke, refused
from tests.sweeper.conftest import SETTINGS
from trainables.models.merging import Models


@pytest.fixture
def stored(golden: Path, tmp_path: Path) -> Path:
    """A finished sweep whose trials 00000 and 00016 have stored models, of which only the names of the files matter."""
    content = json.loads((golden / "sweep.json").read_text())
    target = tmp_path / "target"
    target.mkdir()
    content |= {"sweep_id": "0", "created": "", "target": {"key": content["target"]["key"], "path": str(target)}}
    (golden / "sweep.json").write_text(json.dumps(content))
    for name in ("00000", "00016"):
        folder = golden / "checkpoints" / name
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")
    return golden


def test_lora_and_full_models_are_refused_and_both_are_named(stored: Path) -> None:
    adapter = stored / "checkpoints" / "00016"
    (adapter / "config.json").rename(adapter / "adapter_config.json")
    (message,) = refused("merge", stored, "--trial", "00000", "--trial", "00016", "--out", "merged")
    assert "trial 00016 trained a LoRA adapter" in message
    assert "trial 00000 trained all weights" in message
    assert not Path("merged").exists()


def test_a_finetuned_model_of_another_kind_is_refused_too(stored: Path) -> None:
    Path("finetuned").mkdir()
    Path("finetuned/adapter_config.json").write_text("{}")
    (message,) = refused("merge", stored, "--trial", "00000", "--finetuned", "finetuned", "--out", "merged")
    assert "finetuned trained a LoRA adapter, and trial 00000 trained all weights" in message


def test_the_models_are_merged_at_the_scale_and_measured_against_the_target(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modality, write = Mock(), Mock(side_effect=lambda folder, *models, **options: folder.mkdir())
    score = Mock(return_value=Mock(metrics={"verbmem": 0.2}, items={}))
    settings = Mock(base=SETTINGS.base)
    replaced = {"write_merged_model": write, "score_checkpoint": score, "read_settings": lambda folder: settings}
    for name, value in (replaced | {"dataset_modality": lambda name: modality}).items():
        monkeypatch.setattr(f"sweeper.merging.{name}", value)
    monkeypatch.setattr("sweeper.merging.use_free_threads", lambda: None)
    options = {"trial": ["00000", "00016"], "scale": 2.0, "out": "merged"}
    plan = planned_merge(stored, from_python(MergeOptions, options))
    row = merge(stored, plan, console=Console(quiet=True))
    target, checkpoint = stored.parent / "target", Path("merged/checkpoint")
    folders = [stored / "checkpoints" / name for name in ("00000", "00016")]
    (written, models), rule = write.call_args.args, write.call_args.kwargs
    assert (written, models, rule["rule"], rule["scale"]) == (checkpoint, Models(target, folders), "negmerge", 2.0)
    assert score.call_args.args[0].target_path == str(checkpoint)
    assert score.call_args.kwargs["target"] == target
    assert (row["phase"], row["merged_trials"], row["verbmem"]) == ("merged", "00000,00016", 0.2)
    assert json.loads((plan.out / "metrics.json").read_text())["scale"] == 2.0


def test_trials_that_unlearn_another_target_than_the_first_are_refused(stored: Path) -> None:
    path = stored / "sweep.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"target": content["target"] | {"key": "another"}}))
    (message,) = refused("merge", stored, "--trial", "00000", "--out", "merged")
    assert "the trials 00000 unlearn another target" in message


def test_all_problems_are_reported_together(stored: Path) -> None:
    found = "\n".join(refused("merge", stored, "--rule", "negmreg", "--trial", "00099", "--finetuned", "nowhere"))
    for words in (
        "did you mean 'negmerge'",
        "--out DIR is missing",
        "--trial 00099: no stored last model",
        "nowhere: no",
    ):
        assert words in found, words


def test_a_folder_without_a_sweep_is_refused(tmp_path: Path) -> None:
    assert invoke("merge", tmp_path, "--out", "merged").exit_code == 2


def test_the_folder_of_another_merge_is_refused_and_that_of_the_same_merge_is_continued(stored: Path) -> None:
    out = Path("merged")
    arguments = (stored, "--trial", "00000", "--out", out)
    plan = planned_merge(stored, from_python(MergeOptions, {"trial": ["00000"], "out": str(out)}))
    out.mkdir()
    (out / PLAN).write_text(json.dumps(plan.to_dict()))
    assert plan.is_begun
    (message,) = refused("merge", *arguments, "--scale", 2)
    assert "the folder is not empty" in message
