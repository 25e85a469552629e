"""One model at a time: ``unlearn``, ``evaluate``, ``target``, and the cache they share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.contract.problem import EPOCHS, OPTIMIZER, Problem, losses
from tests.contract.product import Finished, Product, digests, is_measured_time, read_csv, untimed

pytestmark = pytest.mark.ray

SETTINGS = ("--method", "gdiff", "--c", "0.7", "--lr", "0.3", *OPTIMIZER, "--epochs", str(EPOCHS))


@pytest.fixture(scope="module")
def runs(product: Product, problem: Problem, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same command twice, and once with another seed."""
    folder = tmp_path_factory.mktemp("runs")
    for name, seed in (("first", "0"), ("second", "0"), ("other seed", "1")):
        done = product.run("unlearn", *problem.options, *SETTINGS, "--seed", seed, "--out", folder / name, "--json")
        assert done.json == metrics(folder / name)
    return {name: folder / name for name in ("first", "second", "other seed")}


def metrics(folder: Path) -> dict[str, Any]:
    found = json.loads((folder / "metrics.json").read_text())
    assert isinstance(found, dict)
    return found


def without_times(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if not is_measured_time(name)}


# unlearn --------------------------------------------------------------------------------------------------------------


def test_a_run_leaves_a_checkpoint_a_history_and_its_metrics(runs: dict[str, Path], problem: Problem) -> None:
    row, history = metrics(runs["first"]), read_csv(runs["first"] / "history.csv")
    assert (row["status"], row["method"], row["lr"], row["seed"]) == ("finished", "gdiff", 0.3, 0)
    assert [float(report["epoch"]) for report in history] == [*range(1, EPOCHS + 1)]
    assert float(history[-1]["forget_loss"]) == row["forget_loss"]
    found = losses(runs["first"] / "checkpoint", problem.forget)
    assert row["forget_loss"] == pytest.approx(found.plain, rel=1e-4)
    assert row["forget_loss_capped"] == pytest.approx(found.capped, rel=1e-4)


def test_the_same_command_gives_the_same_bits(runs: dict[str, Path]) -> None:
    assert without_times(metrics(runs["first"])) == without_times(metrics(runs["second"]))
    assert untimed(read_csv(runs["first"] / "history.csv")) == untimed(read_csv(runs["second"] / "history.csv"))
    assert digests(runs["first"] / "checkpoint") == digests(runs["second"] / "checkpoint")


def test_another_seed_gives_another_result(runs: dict[str, Path]) -> None:
    first, other = metrics(runs["first"]), metrics(runs["other seed"])
    assert (first["seed"], other["seed"]) == (0, 1)
    assert first["spec_hash"] != other["spec_hash"]
    assert first["forget_loss"] != other["forget_loss"]
    weights = [digests(runs[name] / "checkpoint")["model.safetensors"] for name in ("first", "other seed")]
    assert weights[0] != weights[1]


def test_a_run_equals_the_trial_with_the_same_settings_in_a_sweep(runs: dict[str, Path], reference: Finished) -> None:
    row = metrics(runs["first"])
    (trial,) = [trial for trial in reference.sweep.trials if trial["spec_hash"] == row["spec_hash"]]
    assert set(row) == set(trial)
    for name, value in without_times(row).items():
        if isinstance(value, float):
            assert value == float(trial[name]), name
    kept = digests(reference.sweep.out / trial["checkpoint"])
    assert digests(runs["first"] / "checkpoint")["model.safetensors"] == kept["model.safetensors"]


def test_a_run_that_diverges_has_failed(product: Product, problem: Problem, tmp_path: Path) -> None:
    wild = ("--method", "ngdiff", "--lr", "1e9", *OPTIMIZER, "--epochs", "2")
    done = product.run("unlearn", *problem.options, *wild, "--out", tmp_path / "run", "--json", code=1)
    assert done.json["status"] == "diverged"
    assert done.json["verbmem"] is None
    assert metrics(tmp_path / "run") == done.json
    assert not (tmp_path / "run" / "checkpoint").exists()


# evaluate, target, cache ----------------------------------------------------------------------------------------------


def test_evaluate_measures_what_unlearn_measured(product: Product, problem: Problem, runs: dict[str, Path]) -> None:
    row = metrics(runs["first"])
    checkpoint = runs["first"] / "checkpoint"
    scores = product.run("evaluate", "--model-path", checkpoint, *problem.of_data, "--json").json
    for name in ("forget_loss", "forget_loss_capped", "retain_loss", "verbmem", "utility", "truth_ratio"):
        assert scores[name] == pytest.approx(row[name], rel=1e-5, abs=1e-6), name


def test_a_target_is_made_once_loads_without_the_project_and_is_pruned(
    problem: Problem, new_product: Callable[[str], Product]
) -> None:
    product = new_product("target")
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
