"""``evaluate`` measures the same values for a checkpoint as ``unlearn`` did."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM

from tests.e2e.conftest import Cli

pytestmark = pytest.mark.slow

WANTED = "verbmem,utility,probability,extraction_strength,exact_memorization"
NAMES = (*WANTED.split(",")[:2], "forget_probability", "retain_probability", *WANTED.split(",")[3:], "forget_loss")


def without_target(cli: Cli) -> tuple[list[str], str]:
    """Return the options of the problem without its target, and the target's folder."""
    data = [str(part) for part in cli.problem]
    at = data.index("--target-path")
    return data[:at] + data[at + 2 :], data[at + 1]


def test_an_adapter_has_the_scores_of_its_run(cli: Cli, tmp_path: Path) -> None:
    run = tmp_path / "run"
    wanted = ("--metrics", WANTED)
    cli.run("unlearn", *cli.problem, *wanted, "--lora-rank", "2", "--epochs", "2", "--lr", "1e-3", "--out", run)
    row = json.loads((run / "metrics.json").read_text())
    data, _ = without_target(cli)
    done = cli.run("evaluate", "--model-path", run / "checkpoint", *data, *wanted, "--json")
    scores = done.json
    for name in NAMES:
        assert row[name] is not None, name
        assert scores[name] == pytest.approx(row[name], rel=1e-5, abs=1e-6), name


def test_the_retain_model_is_trained_once_and_transformers_loads_it(cli: Cli, tmp_path: Path) -> None:
    data, base = without_target(cli)
    command = ("target", "--retain-only", *data, "--model-path", base, "--target-epochs", "1", "--json")
    first = cli.run(*command, "--out", tmp_path / "retain")
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "retain").num_parameters() > 0
    again = cli.run(*command)
    assert {**again.json, "path": ""} == {**first.json, "path": ""}
