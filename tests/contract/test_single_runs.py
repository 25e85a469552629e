"""One model at a time: ``unlearn``, ``evaluate``, ``target``, and the cache they share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.contract.problem import EPOCHS, OPTIMIZER, Problem, losses
from tests.contract.product import Finished, Product, Row, digests, is_measured_time, read_csv, untimed

pytestmark = pytest.mark.ray

SETTINGS = ("--method", "gdiff", "--c", "0.7", "--lr", "0.3", *OPTIMIZER, "--epochs", str(EPOCHS))


@pytest.fixture(scope="module")
def run(product: Product, problem: Problem, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run with the settings of a trial of the reference sweep."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    done = product.run("unlearn", *problem.options, *SETTINGS, "--out", folder, "--json")
    assert done.json == metrics(folder)
    return folder


def metrics(folder: Path) -> dict[str, Any]:
    found = json.loads((folder / "metrics.json").read_text())
    assert isinstance(found, dict)
    return found


def without_times(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if not is_measured_time(name)}


def without_ids(reports: list[Row]) -> list[Row]:
    """Reports without what a run and a trial do not share: durations, times of day, and their names."""
    return [{name: report[name] for name in report if name not in ("trial_id", "phase")} for report in untimed(reports)]


# unlearn --------------------------------------------------------------------------------------------------------------


def test_a_run_leaves_a_checkpoint_a_history_and_its_metrics(run: Path, problem: Problem) -> None:
    row, history = metrics(run), read_csv(run / "history.csv")
    assert (row["status"], row["method"], row["lr"], row["seed"]) == ("finished", "gdiff", 0.3, 0)
    assert [float(report["epoch"]) for report in history] == [*range(1, EPOCHS + 1)]
    assert float(history[-1]["forget_loss"]) == row["forget_loss"]
    found = losses(run / "checkpoint", problem.forget)
    assert row["forget_loss"] == pytest.approx(found.plain, rel=1e-4)
    assert row["forget_loss_capped"] == pytest.approx(found.capped, rel=1e-4)


def test_a_run_has_the_bits_of_the_trial_with_the_same_settings_in_a_sweep(run: Path, reference: Finished) -> None:
    row = metrics(run)
    (trial,) = [trial for trial in reference.sweep.trials if trial["spec_hash"] == row["spec_hash"]]
    assert set(row) == set(trial)
    for name, value in without_times(row).items():
        if isinstance(value, float):
            assert value == float(trial[name]), name
    reports = [report for report in reference.sweep.history if report["trial_id"] == trial["trial_id"]]
    assert without_ids(read_csv(run / "history.csv")) == without_ids(reports)
    kept = digests(reference.sweep.out / trial["checkpoint"])
    assert digests(run / "checkpoint")["model.safetensors"] == kept["model.safetensors"]


# evaluate, target, cache ----------------------------------------------------------------------------------------------


def test_evaluate_measures_what_unlearn_measured(product: Product, problem: Problem, run: Path) -> None:
    row = metrics(run)
    checkpoint = run / "checkpoint"
    scores = product.run("evaluate", "--model-path", checkpoint, *problem.of_data, "--json").json
    for name in ("forget_loss", "forget_loss_capped", "retain_loss", "verbmem", "utility", "truth_ratio"):
        assert scores[name] == pytest.approx(row[name], rel=1e-5, abs=1e-6), name


def test_a_target_is_made_once_loads_without_the_project_and_is_pruned(
    problem: Problem, new_product: Callable[..., Product]
) -> None:
    product = new_product("target", own_cache=True)
    command = ("target", *problem.of_data, "--model-path", problem.target, "--target-epochs", "1", "--json")
    made = Path(product.run(*command).json["path"])
    assert losses(made, problem.retain).plain < 1.0
    before = {path: path.stat().st_mtime_ns for path in made.rglob("*.safetensors")}
    assert before
    assert product.run(*command).json["path"] == str(made)
    assert {path: path.stat().st_mtime_ns for path in made.rglob("*.safetensors")} == before

    listed = [Path(path) for entry in product.run("cache", "--json").json["entries"] for path in entry["paths"]]
    assert any(made == path or path in made.parents for path in listed)
    product.run("cache", "--prune", "--older-than", "0", "--json")
    assert not [path for path in before if path.exists()]
    assert product.run("cache", "--json").json["entries"] == []
