"""``--dry-run`` prints a plan and starts nothing; ``--measure`` times one epoch for the plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from sweeper.checks.trial_time import TrialPace
from sweeper.execution.target_task import prepare_with_progress as real_prepare
from sweeper.store.tables import ResultTables
from tests.sweeper.cli.conftest import Command, invoke, names, refuse_to_work
from tests.sweeper.conftest import write_questions

DONE = {
    "trial_id": "00000",
    "seed": 0,
    "lr": 1e-4,
    "status": "finished",
    "epochs": 4,
    "epochs_done": 4.0,
    "wall_seconds": 30.0,
}
SECONDS = {"train_seconds": 20.0, "eval_seconds": 4.0, "generation_seconds": 0.0}


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """``--measure`` trains nothing and reports these values."""
    pace = TrialPace(epoch=2.0, beside=1.0, source="a short run", memory=10**9)
    monkeypatch.setattr("sweeper.checks.plan.measured_pace", lambda spec: pace)


@pytest.fixture
def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if anything is trained: the target, a trial, or the measured epoch."""
    for entry in (
        "sweeper.checks.plan.measured_pace",
        "trainables.target.prepare.prepare_target",
        "trainables.target.prepare.train",
        "trainables.target.training.finetune",
        "trainables.run.run.UnlearningRun.__init__",
    ):
        monkeypatch.setattr(entry, refuse_to_work)


def files(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


def plan(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    content: dict[str, Any] = json.loads(result.stdout)
    return content


@pytest.mark.usefixtures("no_training")
@pytest.mark.parametrize("command", ["pareto", "lr-study", "unlearn"])
def test_with_an_empty_cache_a_dry_run_trains_and_writes_nothing(command: str, data: Path, tmp_path: Path) -> None:
    before = files(tmp_path)
    given = (command, "--model", "tiny-phi", "--dataset", "tofu", "--data-dir", data, "--forget-split", "forget01")
    content = plan(invoke(*given, "--out", tmp_path / "new", "--dry-run", "--json"))
    assert files(tmp_path) == before
    assert not (tmp_path / "cache").exists()
    assert content["measured"] is False
    values = [content[name] for name in ("seconds", "at_most", "pace", "memory", "disk", "disk_bytes")]
    assert values == [None] * len(values)
    assert content["unknown"].keys() == {"seconds", "memory", "disk"}
    shown = invoke(*given, "--out", tmp_path / "new", "--dry-run")
    assert shown.exit_code == 0
    assert shown.stdout.count("--measure") == 3, "for the time, the memory and the disk"
    assert files(tmp_path) == before


@pytest.mark.usefixtures("measured")
def test_a_sweep_is_planned_and_not_begun(pareto: Command, tmp_path: Path, out: Path) -> None:
    before = files(tmp_path)
    given = ("--trials", "6", "--epochs", "4", "--max-concurrent", "1", "--scheduler", "none", "--dry-run", "--measure")
    content = plan(pareto(*given, "--json"))
    assert files(tmp_path) == before
    assert (content["what"], content["trials"], content["at_once"], content["downloads"]) == ("pareto", 6, 1, [])
    assert content["settings"]["method"] == "gdiff, ngdiff"
    assert (content["seconds"], content["memory"]) == (6 * (1 + 4 * 2), 10**9)
    assert content["measured"] is True
    assert content["unknown"].keys() == {"disk"}, "the replaced measurement left no target"
    shown = pareto(*given).stdout
    for value in ("6\n", "54.0 s", "a short run", "1.0 GB", str(out)):
        assert value in shown
    assert files(tmp_path) == before


@pytest.mark.usefixtures("planned_only")
def test_earlier_trials_are_asked_first_and_a_resume_counts_its_own(pareto: Command, tmp_path: Path, out: Path) -> None:
    given = ("--trials", "5", "--epochs", "4", "--max-concurrent", "1", "--scheduler", "none")
    assert pareto(*given).exit_code == 0
    before = files(tmp_path)
    content = plan(invoke("resume", out, "--dry-run", "--json"))
    assert (content["trials"], content["seconds"], content["measured"]) == (5, None, False)
    assert files(tmp_path) == before
    ResultTables(out).trials.append([DONE | SECONDS])
    ResultTables(out).history.append([{"trial_id": "00000", "epoch": float(n), "step": n} for n in range(1, 5)])
    before = files(tmp_path)
    content = plan(invoke("resume", out, "--dry-run", "--json"))
    assert (content["trials"], content["asked"], content["seconds"]) == (4, 5, 4 * 30.0)
    assert content["pace"]["source"] == f"1 trial of {out}"
    assert plan(invoke("resume", out, "--trials", "7", "--dry-run", "--json"))["seconds"] == 6 * 30.0
    spent = plan(invoke("resume", out, "--epoch-budget", "7", "--dry-run", "--json"))["seconds"]
    assert spent == 4 * (6.0 + 0.75 * 6.0), "three epochs of the budget are left for four trials"
    beside = plan(pareto(*given, "--epochs", "8", "--dry-run", "--json", out=tmp_path / "next"))
    assert beside["seconds"] == 5 * (6.0 + 8 * 6.0)
    assert files(tmp_path) == before


@pytest.mark.usefixtures("measured")
def test_a_study_and_a_single_run_are_planned(
    data: Path, unlearn: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, out: Path
) -> None:
    before = files(tmp_path)
    tofu = ("--model", "tiny-phi", "--dataset", "tofu", "--data-dir", data, "--forget-split", "forget01")
    study = plan(invoke("lr-study", *tofu, "--method", "ngdiff", "--lr", "1e-4", "--lr", "1e-3", "--dry-run", "--json"))
    assert (study["what"], study["trials"]) == ("lr-study", 2 * 2 * 2)
    run = plan(unlearn("--epochs", "3", "--dry-run", "--measure", "--json"))
    assert (run["what"], run["trials"], run["seconds"], run["out"]) == ("unlearn", 1, 7.0, str(out))
    assert "in this process" in (shown := unlearn("--dry-run").stdout)
    assert "GPU" not in shown, "on a machine without one"
    for module in ("checks.plan", "settings.resolve", "execution.placement", "settings.sweep_settings"):
        monkeypatch.setattr(f"sweeper.{module}.gpus_here", lambda: 1)
    assert "1 GPU" in unlearn("--dry-run").stdout
    shared = invoke("pareto", *tofu, "--trials", "6", "--gpus-per-trial", "auto", "--dry-run")
    assert names(shared.stdout, ["1 at once", "GPU", "auto"])
    assert files(tmp_path) == before


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
    content = plan(invoke("pareto", "--model", "phi-1.5", *arguments, "--dry-run", "--json"))
    assert (content["seconds"], content["memory"]) == (None, None)


def test_measure_prepares_the_target_and_times_an_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_questions(tmp_path / "own")
    monkeypatch.setattr("sweeper.execution.target_task.prepare_with_progress", real_prepare)
    given = ("--dataset", "jsonl", "--data-dir", folder, "--target-epochs", "1", "--batch-size", "2", "--epochs", "50")
    result = invoke("pareto", *given, "--out", tmp_path / "new", "--dry-run", "--measure", "--json")
    content = plan(result)
    assert content["measured"] is True
    assert content["unknown"] == {}
    assert content["target"] == "cached"
    assert content["pace"]["epoch"] > 0
    assert content["memory"] > 10**8
    assert result.stderr.count("--measure: ") == 2, "one message for the target and one for the trial"
    assert {path.name for path in tmp_path.iterdir()} == {"own", "cwd", "cache"}
    assert list((tmp_path / "cwd").iterdir()) == []
