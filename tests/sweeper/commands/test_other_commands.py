"""``list``, ``evaluate``, ``target`` and ``doctor``."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import optuna
import pytest
from click.testing import CliRunner, Result

from sweeper.cli import main
from tests.sweeper.commands.conftest import invoke, problems_of
from trainables.metrics.registry import SETS
from trainables.scoring.measured import Measured


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("methods", {"gd", "ga", "gdiff", "lossnorm", "rlw", "pcgrad", "imtl-g", "ngdiff", "npo"}),
        ("models", {"tiny-phi", "phi-1.5"}),
        ("datasets", {"authors", "tofu"}),
    ],
)
def test_everything_that_can_be_chosen_is_listed(kind: str, names: set[str]) -> None:
    rows = json.loads(invoke("list", kind, "--json").stdout)
    assert names <= {row["name"] for row in rows}
    listed = invoke("list", kind).stdout.splitlines()
    assert [line for line in listed if not line.startswith(" ")] == [row["name"] for row in rows]


def test_a_listed_metric_says_which_way_is_better_or_what_is_ideal() -> None:
    rows = {row["name"]: row for row in json.loads(invoke("list", "metrics", "--json").stdout)}
    assert rows["privleak"]["better"] == "0 is ideal"
    assert {row["better"] for name, row in rows.items() if name in SETS["mia"]} == {"0.5 is ideal"}
    assert [rows[name]["better"] for name in ("privleak_distance", "verbmem", "utility")] == [
        "lower",
        "lower",
        "higher",
    ]
    assert rows["mia_loss_distance"]["formula"] == "|mia_loss - 0.5|"
    assert "0 is ideal" in invoke("list", "metrics").stdout


def test_a_listed_option_says_its_default_and_range() -> None:
    (gdiff,) = [row for row in json.loads(invoke("list", "methods", "--json").stdout) if row["name"] == "gdiff"]
    assert "c (default 0.5, from 0 to 1" in gdiff["options"]


def test_a_listed_objective_says_its_other_name_and_what_it_needs_of_the_target() -> None:
    rows = {row["name"]: row for row in json.loads(invoke("list", "methods", "--json").stdout)}
    assert rows["dpo"]["also called"] == "idk-dpo"
    assert rows["npo"]["also called"] == ""
    assert [rows[name]["needs of the target"] for name in ("ga", "dpo", "undial", "rmu")] == [
        "",
        "log-likelihoods, computed once",
        "logits, a forward pass per step",
        "hidden states, a forward pass per step",
    ]


@pytest.fixture
def evaluate(model_folder: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """``evaluate`` of a folder on TOFU's files, with no model loaded: a score is what it gives."""
    scores = Measured({"forget_loss": 1.0}, {}, 0.0)
    monkeypatch.setattr("trainables.target.checkpoint_scores.score_checkpoint", lambda spec, **named: scores)
    problem = ("--dataset", "tofu", "--data-dir", data, "--forget-split", "forget01")
    return lambda *arguments: invoke("evaluate", "--model-path", model_folder, *problem, *arguments)


def test_what_a_set_of_metrics_loses_without_a_retain_model_is_said_in_one_line(
    evaluate: Callable[..., Result], model_folder: Path
) -> None:
    result = evaluate("--metrics", "tofu", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == {"forget_loss": 1.0}
    (line,) = result.stderr.splitlines()
    assert line.startswith("left out for want of a retain model: forget_quality; give one with --retain-model DIR")
    assert "'python -m sweeper target --retain-only --out DIR'" in line
    for enough in (("--metrics", "tofu", "--retain-model", model_folder), ("--metrics", "default")):
        assert evaluate(*enough).stderr == ""


@pytest.mark.parametrize(
    ("model", "lacking"), [("tiny-phi", "no tokenizer"), ("tiny-resnet", "no preprocessor_config.json")]
)
def test_a_folder_is_looked_at_as_one_of_the_models_own_data(tmp_path: Path, model: str, lacking: str) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"")
    assert lacking in problems_of(invoke("evaluate", "--model", model, "--model-path", tmp_path))[-1]


def test_a_metric_that_needs_a_retain_model_is_refused_by_name_without_one(evaluate: Callable[..., Result]) -> None:
    (problem,) = problems_of(evaluate("--metrics", "tofu,forget_quality"))
    assert "forget_quality needs a retain model (--retain-model DIR" in problem


def test_a_target_with_wrong_options_is_refused(data: Path) -> None:
    problems = problems_of(
        invoke("target", "--dataset", "tofu", "--data-dir", data / "x", "--forget-split", "f", "--max-length", "0")
    )
    assert any("'f'" in problem for problem in problems)
    assert any("max_length" in problem for problem in problems)


def test_doctor_says_what_there_is_and_whether_the_hub_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweeper.commands.hub_check.hub_problems", lambda repositories: ["no hub"])
    result = invoke("doctor")
    assert result.exit_code == 0, result.output
    for text in ("torch", "ray", "optuna", "mlflow", "cpus", "gpus", "GB free", "cannot be reached"):
        assert text in result.stdout
    monkeypatch.setattr("sweeper.commands.hub_check.hub_problems", lambda repositories: [])
    assert "hub           reachable" in invoke("doctor").stdout


def test_doctor_says_it_to_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweeper.commands.hub_check.hub_problems", lambda repositories: ["no hub"])
    found = json.loads(invoke("doctor", "--json").stdout)
    assert found["versions"]["optuna"] == optuna.__version__
    assert found["cpus"] == os.cpu_count()
    assert found["disk_free_bytes"] > 0
    assert (found["missing"], found["hub_reachable"]) == ([], False)
    assert isinstance(found["gpus"], list)


def test_any_command_says_where_its_time_went() -> None:
    result = CliRunner().invoke(main, ["list", "methods", "--profile"])
    assert result.exit_code == 0
    *_, other, whole = result.stderr.splitlines()
    assert re.fullmatch(r" +\d+\.\d\d s  other \(imports, options\)", other)
    assert re.fullmatch(r" +\d+\.\d\d s  in all", whole)
    assert "s  in all" not in result.stdout
    for command in main.commands.values():
        assert any(parameter.name == "profile" for parameter in command.params), command.name
