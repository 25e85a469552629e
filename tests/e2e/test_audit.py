"""The command ``audit`` fine-tunes its pools on Ray, writes its tables, and trains nothing twice."""

from __future__ import annotations

import csv

import pytest

from tests.e2e.conftest import Cli

pytestmark = [pytest.mark.slow, pytest.mark.ray]

SHORT = ("--model", "tiny-phi", "--dataset", "authors", "--target-epochs", "2", "--limit", "10")


def test_audit_trains_both_pools_and_again_nothing(cli: Cli) -> None:
    sweep = cli.new("audited")
    cli.run("pareto", *SHORT, "--method", "ngdiff", "--trials", "1", "--epochs", "2", "--out", sweep.out, "--json")
    assert "--models" in cli.run("audit", sweep.out, code=2).stderr
    plan = cli.run("audit", sweep.out, "--models", "2", "--dry-run").stdout
    assert "cannot reject at the 5% level" in plan
    assert not (sweep.out / "audit.json").exists()

    cli.run("audit", sweep.out, "--models", "2", "--json")

    found = sweep.json("audit.json")
    assert (found["never_saw"], found["saw"], found["failed"]) == (2, 2, 0)
    assert found["smallest_p"] == pytest.approx(1 / 3)
    loss = next(item for item in found["metrics"] if item["metric"] == "forget_loss")
    assert loss["faithfulness"]["value"] == 1.0, "models that saw the forget set have a lower loss of it"
    with (sweep.out / "audit.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["pool"] in ("never-saw", "saw")]
    assert [(row["pool"], row["trial_id"]) for row in rows] == [
        (pool, f"{pool}-{number:03d}") for pool in ("never-saw", "saw") for number in (1, 2)
    ]
    assert [row["status"] for row in sweep.trials if row["phase"] == "audit"] == ["finished"] * 4
    assert "never-saw-001 finished" not in cli.run("audit", sweep.out, "--models", "2", "--json").stderr
