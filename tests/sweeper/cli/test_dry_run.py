"""``--dry-run`` prints a plan and starts nothing; its times are those of previous trials."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.sweeper.cli.conftest import Command, invoke, names, record_trial, resolved, tofu
from trainables.target.cache import RECORD, cache_folder
from trainables.target.target import target_spec_of

DONE = {"trial_id": "00000", "seed": 0, "lr": 1e-4, "status": "finished", "epochs": 4, "epochs_done": 4.0}
DONE |= {"wall_seconds": 30.0, "train_seconds": 20.0, "eval_seconds": 8.0, "generation_seconds": 4.0}


def plan(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    content: dict[str, Any] = json.loads(result.stdout)
    return content


@pytest.mark.usefixtures("planned_only")
def test_earlier_trials_are_asked_first_and_a_resume_counts_its_own(pareto: Command, tmp_path: Path, out: Path) -> None:
    given = ("--trials", "5", "--epochs", "4", "--max-concurrent", "1", "--scheduler", "none")
    assert pareto(*given).exit_code == 0
    content = plan(invoke("resume", out, "--dry-run", "--json"))
    assert (content["what"], content["trials"], content["seconds"]) == ("pareto", 5, None)
    record_trial(out, DONE, epochs=4)
    before = set(tmp_path.rglob("*"))
    content = plan(invoke("resume", out, "--dry-run", "--json"))
    assert (content["trials"], content["asked"], content["seconds"]) == (4, 5, 4 * 30.0)
    assert content["pace"]["source"] == f"1 trial of {out}"
    assert plan(invoke("resume", out, "--trials", "7", "--dry-run", "--json"))["seconds"] == 6 * 30.0
    spent = plan(invoke("resume", out, "--epoch-budget", "7", "--dry-run", "--json"))["seconds"]
    assert spent == 4 * (6.0 + 0.75 * 6.0), "three epochs of the budget are left for four trials"
    beside = pareto(*given, "--epochs", "8", "--dry-run", out=tmp_path / "next")
    assert names(
        beside.stdout,
        ["5\n", "gdiff, ngdiff", "1 trial at once", "4 min 30 s", f"1 trial of {out}", f"{tmp_path}/next"],
    )
    assert set(tmp_path.rglob("*")) == before


def test_a_note_tells_that_the_space_has_fewer_configurations_than_trials(pareto: Command) -> None:
    given = ("--method", "ngdiff", "--lr", "1e-4", "--lr", "1e-3", "--sampler", "random", "--dry-run", "--json")
    content = plan(pareto(*given, "--trials", "5", "--seeds", "2"))
    assert (content["trials"], content["asked"]) == (4, 5)
    assert any(names(note, ["2 configurations", "4 of 5"]) for note in content["notes"])
    assert plan(pareto(*given, "--trials", "2"))["notes"] == []


def test_memory_and_disk_of_a_run_follow_from_the_size_of_its_target(tiny_phi: Path, data: Path, out: Path) -> None:
    arguments = ("unlearn", *tofu(data), "--target-path", tiny_phi, "--dry-run")
    run = plan(invoke(*arguments, "--out", out, "--json"))
    assert (run["what"], run["trials"], run["out"], run["downloads"]) == ("unlearn", 1, str(out), [])
    # The model, two gradients and the two moments of AdamW; a checkpoint, and a saved state with the moments.
    assert (run["memory"], run["disk_bytes"]) == (5 * run["disk"]["checkpoint"], 4 * run["disk"]["checkpoint"])
    assert run["disk"]["checkpoint"] == pytest.approx((tiny_phi / "model.safetensors").stat().st_size, rel=0.05)
    assert names(invoke(*arguments).stdout, ["in this process", "nothing is kept"])
    trained = cache_folder() / "targets" / target_spec_of(resolved("unlearn", *tofu(data)).base).trained_key
    shutil.copytree(tiny_phi, trained)
    (trained / "target.json").touch()
    cached = plan(invoke("unlearn", *tofu(data), "--dry-run", "--json"))
    assert (cached["target"], cached["memory"], cached["disk"]) == ("cached", run["memory"], None)


def test_attacks_take_the_recorded_rate_of_a_given_target(tiny_phi: Path, pareto: Command, tmp_path: Path) -> None:
    target = tmp_path / "target"
    shutil.copytree(tiny_phi, target)
    given = ("--target-path", target, "--attacks", "benign", "--dry-run")
    for record, rate in (("", 2e-3), ('{"recipe": {"lr": 0.0003, "lora_rank": null}}', 3e-4)):
        (target / RECORD).write_text(record)
        assert f"use the learning rate {rate:g}" in " ".join(pareto(*given).stdout.split())
    assert "use the learning rate 0.01" in " ".join(pareto(*given, "--relearn-lr", "0.01").stdout.split())


def test_a_run_takes_the_gpu_and_trials_share_it(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "GPU" not in invoke("unlearn", *tofu(data), "--dry-run").stdout, "on a machine without one"
    for module in ("checks.plan", "settings.resolve", "execution.placement", "settings.sweep_settings"):
        monkeypatch.setattr(f"sweeper.{module}.local_gpu_count", lambda: 1)
    assert "1 GPU" in invoke("unlearn", *tofu(data), "--dry-run").stdout
    shared = invoke("pareto", *tofu(data), "--trials", "6", "--gpus-per-trial", "auto", "--dry-run")
    assert names(shared.stdout, ["1 trial at once", "GPU", "auto"])


def test_a_model_from_the_hub_is_named_with_its_size(
    monkeypatch: pytest.MonkeyPatch, data: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr("sweeper.checks.hub.hub_problems", lambda repositories: [])
    monkeypatch.setattr("sweeper.checks.hub._size", lambda kind, name: 2_840_000_000)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    arguments = ("--dataset", "tofu", "--data-dir", data, "--forget-split", "forget01", "--gpus-per-trial", "0")
    result = invoke("pareto", "--model", "phi-1.5", *arguments, "--dry-run")
    assert result.exit_code == 0, result.output
    assert names(result.stdout, ["microsoft/phi-1_5", "2.8 GB"])


def test_the_plan_says_what_is_optimised_and_how_the_target_is_trained() -> None:
    arguments = ("pareto", "--target-epochs", "3", "--target-lora-rank", "4", "--dry-run")
    shown = invoke(*arguments).stdout
    assert "maximise forget_loss_capped, minimise retain_loss" in shown
    assert "3 epochs, lr 0.002, batch size 8, LoRA of rank 4" in shown
    assert (
        json.loads(invoke(*arguments, "--json").stdout)["settings"]["objectives"] == "forget_loss:max,retain_loss:min"
    )
    assert "at most 120 epochs, until the data are memorised" in invoke("pareto", "--dry-run").stdout


def test_the_plan_says_what_gen_is_and_that_curvature_destroyed_models_with_lora() -> None:
    lines = invoke("unlearn", "--auto-lr", "curvature", "--lora-rank", "8", "--dry-run").stdout
    assert "(with LoRA, curvature chose rates that were 2 to 18 times the best fixed rate (docs/results.md))" in lines
    assert "best fixed rate" not in invoke("unlearn", "--auto-lr", "curvature", "--dry-run").stdout
    lines = invoke("pareto", "--auto-lr", "off", "--auto-lr", "gen", "--lora-rank", "8", "--dry-run").stdout
    assert "off, gen (gen is Eq. 8 of the paper; --auto-lr on means gen)" in lines


@pytest.mark.parametrize(("attacks", "rate"), [("quantize,relearn", "learning rate 0.002"), ("quantize", "")])
def test_the_plan_has_the_learning_rate_of_attacks_that_train_the_model(attacks: str, rate: str) -> None:
    lines = invoke("pareto", "--attacks", attacks, "--dry-run").output.splitlines()
    (line,) = [line for line in lines if line.strip().startswith("attacks")]
    assert rate in line
    assert ("learning rate" in line) == bool(rate)
