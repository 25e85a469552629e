"""A learning-rate study and what is read off it, by the commands a user types."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.ray]

Cli = Any  # conftest.py has the class


def test_a_study_ends_in_a_verdict_that_report_compare_and_pick_go_on_from(cli: Cli, tmp_path: Path) -> None:
    sweep = cli.new("study")
    _, *rest = cli.pareto(sweep, "--method", "ngdiff", "--lr", "1e-3", "--lr", "1e-2", "--seeds", "2")
    done = cli.run("lr-study", *rest, "--epochs", "2", "--batch-size", "5", "--gpus-per-trial", "0", "--json")

    # Two rates, fixed and as AutoLR's starts, on two seeds.
    assert len(sweep.trials) == 8
    assert sorted((row["lr"], row["auto_lr"], row["seed"]) for row in sweep.trials) == sorted(
        (lr, policy, seed) for lr in ("0.001", "0.01") for policy in ("on", "off") for seed in ("0", "1")
    )
    study = sweep.json("lr_study.json")
    (verdict,) = study["verdicts"]
    assert {opponent["outcome"] for opponent in verdict["opponents"]} == {"too few seeds"}
    assert json.loads(done.stdout)["status"]["finished"] == 8
    updates = (sweep.out / "auto_lr.csv").read_text().splitlines()
    assert {line.split(",")[0] for line in updates[1:]} == {
        row["trial_id"] for row in sweep.trials if row["auto_lr"] == "on"
    }

    cli.run("report", sweep.out)
    page = (sweep.out / "report.html").read_text()
    assert "nothing can be concluded about AutoLR" in page
    for name in ("learning_rate_sensitivity", "anytime_hypervolume", "auto_lr"):
        figures = list((sweep.out / "figures").glob(f"{name}*.svg"))
        assert figures, name
        ElementTree.parse(figures[0])

    table = cli.run("compare", sweep.out, "--out", tmp_path / "tables").stdout
    assert "| ngdiff |" in table
    assert {path.suffix for path in (tmp_path / "tables").iterdir()} == {".md", ".tex", ".csv", ".html"}

    picked = json.loads(cli.run("pick", sweep.out, "--copy-to", tmp_path / "model", "--json").stdout)
    assert picked["trial_id"] in sweep.ended()
    assert (tmp_path / "model" / "model.safetensors").is_file()
