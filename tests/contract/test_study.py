"""A study of learning rates and seeds with AutoLR beside them, with a metric from a plug-in."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.contract.problem import Problem
from tests.contract.product import ROOT, Product, Sweep, read_csv

pytestmark = pytest.mark.ray


@dataclass(frozen=True)
class Study:
    sweep: Sweep
    metric: str
    """The name of the plug-in's metric."""


def metric_of_the_guide() -> str:
    """The plug-in that docs/extend.md shows for a metric: the only promise about how one is written."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "extend.md").read_text(), re.DOTALL)
    return next(block for block in blocks if re.search(r"^METRICS = ", block, re.MULTILINE))


@pytest.fixture(scope="module")
def study(product: Product, problem: Problem, tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp("study")
    text = metric_of_the_guide()
    (name, *_) = re.findall(r'name="(\w+)"', text)
    (folder / "my_metric.py").write_text(text)
    measured = ("--plugin", folder / "my_metric.py", "--metrics", f"verbmem,utility,{name}", "--front-metrics", "0")
    grid = ("--method", "ngdiff", "--lr", "0.1", "--lr", "0.3", "--seeds", "2", "--epochs", "1", "--batch-size", "5")
    updates = ("--describe", "--auto-lr-start", "1")  # by default, the first update is at step 10
    tracking = ("--tracking-uri", product.tracking_uri)
    out = ("--optimizer", "sgd", "--gpus-per-trial", "0", "--out", folder / "study", *tracking, "--json")
    summary = product.run("lr-study", *problem.options, *grid, *updates, *measured, *out).json
    assert summary["trials"] == 8
    return Study(Sweep(folder / "study"), name)


def test_a_study_runs_every_rate_with_every_seed_without_and_with_auto_lr(study: Study) -> None:
    points = Counter((float(row["lr"]), row["seed"], row["auto_lr"]) for row in study.sweep.trials)
    assert points == Counter((lr, seed, auto) for lr in (0.1, 0.3) for seed in "01" for auto in ("off", "gen"))
    assert {row["status"] for row in study.sweep.trials} == {"finished"}


def test_seeds_of_a_study_give_different_results(study: Study) -> None:
    rows = [row for row in study.sweep.trials if (row["lr"], row["auto_lr"]) == ("0.3", "off")]
    assert len({row["forget_loss"] for row in rows}) == len({row["spec_hash"] for row in rows}) == 2


def test_a_study_leaves_a_verdict_and_the_updates_of_auto_lr(study: Study) -> None:
    assert "ngdiff" in str(study.sweep.json("lr_study.json"))
    assert read_csv(study.sweep.out / "lr_study.csv")
    updates = read_csv(study.sweep.out / "auto_lr.csv")
    with_auto = {row["trial_id"] for row in study.sweep.trials if row["auto_lr"] == "gen"}
    assert {row["trial_id"] for row in updates} == with_auto


def test_a_verdict_has_both_endpoints_the_cost_and_a_sentence(study: Study) -> None:
    """Two seeds decide nothing, so the study was run with --describe."""
    (verdict,) = study.sweep.json("lr_study.json")["verdicts"]
    assert set(verdict) >= {
        *("method", "rule", "task", "seeds_vary", "outcome", "success", "collapse", "quality", "equivalence", "cost"),
        *("updates", "detectable", "rates", "headline"),
    }
    assert (verdict["method"], verdict["rule"]) == ("ngdiff", "gen")
    assert verdict["outcome"] in {"undecided", "open"}
    assert {rate["lr"] for rate in verdict["rates"]} == {0.1, 0.3}
    assert verdict["headline"].startswith("gen (")


def test_too_few_seeds_for_any_decision_are_refused_before_work(product: Product, tmp_path: Path) -> None:
    refused = product.run("lr-study", "--method", "ngdiff", "--seeds", "2", "--out", tmp_path / "study", code=2)
    assert "--describe" in refused.stderr
    assert not (tmp_path / "study").exists()


def test_a_metric_from_a_plug_in_is_measured_in_every_trial(study: Study) -> None:
    assert all(0.0 <= float(row[study.metric]) <= 1.0 for row in study.sweep.trials)
    column = study.sweep.json("sweep.json")["columns"][study.metric]
    assert column["role"]
    assert column["direction"] in {"max", "min"}


def test_compare_sets_auto_lr_beside_fixed_rates(product: Product, study: Study, tmp_path: Path) -> None:
    (table,) = product.run("compare", study.sweep.out, "--json", "--out", tmp_path / "tables").json["tables"]
    (row,) = table["rows"]
    assert row["method"] == "ngdiff"
    assert row["without"]["seeds"] == row["with_auto"]["seeds"] == 2
