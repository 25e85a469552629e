"""MLflow's recommended run holds what pareto.json recommends: here an epoch before the end of its trial."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.e2e.conftest import Cli

pytestmark = [pytest.mark.slow, pytest.mark.ray]

TRIAL = ("--sampler", "grid", "--method", "gdiff", "--c", "0.3", "--optimizer", "sgd", "--lr", "0.1", "--epochs", "4")
ASKED = ("--candidates", "all", "--constraint", "forget_loss>=6.1", "--constraint", "retain_loss<=6.4")
"""The forget loss reaches its cap before the last epoch, and the retain loss rises until the end."""
NAMED = ("trial_id", "epoch", "step", "checkpoint")
SMALL = ("--batch-size", "5", "--gpus-per-trial", "0", "--json")


def test_the_recommended_run_has_the_weights_and_metrics_of_the_recommended_epoch(cli: Cli, tmp_path: Path) -> None:
    from mlflow import MlflowClient

    sweep = cli.new("recommended")
    cli.run(*cli.pareto(sweep, *TRIAL, *ASKED, *SMALL))
    answer = sweep.json("pareto.json")["answer"]
    (trial,) = sweep.trials
    assert answer["recommended"]
    assert answer["checkpoint"] not in ("", trial["checkpoint"]), "an epoch before the end"
    (row,) = (row for row in sweep.candidates if float(row["epoch"]) == answer["epoch"])
    client = MlflowClient(tracking_uri=cli.tracking_uri)

    def recommended() -> Any:
        experiment = client.get_experiment_by_name("recommended")
        assert experiment is not None
        runs = client.search_runs([experiment.experiment_id])
        assert len(runs) == 3  # the sweep, its trial, the epoch
        (run,) = (run for run in runs if run.data.tags.get("recommended") == "true")
        kept = Path(client.download_artifacts(run.info.run_id, "", str(tmp_path)))
        assert [path.name for path in kept.iterdir()] == ["checkpoint"]
        assert sha256(kept / "checkpoint") == sha256(sweep.out / answer["checkpoint"])
        assert sha256(kept / "checkpoint") != sha256(sweep.out / trial["checkpoint"])
        measured = {name: value for name, value in row.items() if value and name not in NAMED}
        assert run.data.metrics == {name: float(value) for name, value in measured.items()}
        assert {"utility", "verbmem", "forget_loss"} <= run.data.metrics.keys()
        assert run.data.params["c"] == trial["c"]
        assert answer["headline"] in run.data.tags["mlflow.note.content"]
        assert answer["checkpoint"] in run.data.tags["mlflow.note.content"]
        return run

    run = recommended()
    picked = json.loads(cli.run("pick", sweep.out, "--register", "forgetful", "--json").stdout)
    assert picked["epoch"] == answer["epoch"]
    assert picked["registered"]["run_id"] == run.info.run_id
    cli.run("resume", sweep.out, "--json")
    assert recommended().info.run_id == run.info.run_id


def sha256(checkpoint: Path) -> str:
    return hashlib.sha256((checkpoint / "model.safetensors").read_bytes()).hexdigest()
