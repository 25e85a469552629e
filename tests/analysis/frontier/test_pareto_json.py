"""pareto.json: the frontier for other tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.frontier.frontier import frontier
from analysis.frontier.pareto_json import pareto_content, plain
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable
from search_spaces.durable import write_json
from tests.analysis.conftest import MakeSweep, trial


def _written(out: Path) -> dict[str, Any]:
    sweep, table = SweepFile.read(out), TrialTable.read(out)
    write_json(out / "pareto.json", plain(pareto_content(frontier(table, sweep.objectives), table, sweep)))

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    content: dict[str, Any] = json.loads((out / "pareto.json").read_text(), parse_constant=refuse)
    return content


def test_it_says_what_was_attained_and_by_which_trial(make_sweep: MakeSweep) -> None:
    content = _written(
        make_sweep([trial("00007", 6.0, 4.0, method="gdiff", c=0.25, lr=5e-5, seed=3), trial("00002", 5.0, 5.0)])
    )
    assert content["objectives"] == [
        {"name": "forget_loss", "direction": "max", "bounds": [0.0, 8.0], "column": "forget_loss_capped"},
        {"name": "retain_loss", "direction": "min", "bounds": [0.0, 8.0], "column": "retain_loss"},
    ]
    assert content["reference"] == {"forget_loss": 0.0, "retain_loss": 8.0}
    assert content["hypervolume"] == pytest.approx(0.375)
    (member,) = content["front"]
    assert member["trial_id"] == "00007"
    assert member["objectives"] == {"forget_loss": 6.0, "retain_loss": 4.0}
    assert member["checkpoint"] == "checkpoints/00007"
    spec = {"method": "gdiff", "c": 0.25, "lr": 5e-5, "seed": 3, "model": "tiny-phi", "dataset": "authors"}
    assert spec.items() <= member.items()
    assert content["baseline"]["objectives"] == {"forget_loss": 0.04, "retain_loss": 0.05}
    assert content["baseline"]["verbmem"] == 0.9


def test_whole_numbers_stay_whole_and_missing_values_are_null(make_sweep: MakeSweep) -> None:
    rows = [trial("0", 6.0, 4.0, checkpoint=""), trial("1", 1.0, 1.0, method="gdiff", c=0.5)]
    member = next(item for item in _written(make_sweep(rows))["front"] if item["trial_id"] == "0")
    assert member["c"] is None
    assert member["beta"] is None
    assert member["checkpoint"] is None
    assert isinstance(member["seed"], int)


@pytest.mark.parametrize("status", [None, "diverged"], ids=["no trial has ended", "all diverged"])
def test_without_finished_trials_the_front_is_empty(make_sweep: MakeSweep, status: str | None) -> None:
    content = _written(make_sweep(None if status is None else [trial("0", None, None, status=status)]))
    assert (content["front"], content["hypervolume"]) == ([], 0.0)
    assert len(content["objectives"]) == 2


def test_a_baseline_without_a_metric_has_null_and_an_unmeasured_one_is_null(make_sweep: MakeSweep) -> None:
    partly = _written(make_sweep([], baseline={"retain_loss": 0.5, "forget_loss_capped": None}, name="partly"))
    assert partly["baseline"]["objectives"] == {"forget_loss": None, "retain_loss": 0.5}
    assert _written(make_sweep([], baseline=None, name="never"))["baseline"] is None
