"""The content of pareto.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.frontier.frontier import frontier
from analysis.frontier.pareto_json import pareto_content, plain
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable
from tests.analysis.conftest import BASELINE, MakeSweep, trial


def _written(out: Path) -> dict[str, Any]:
    sweep, table = SweepFile.read(out), TrialTable.read(out)
    text = json.dumps(plain(pareto_content(frontier(table, sweep.objectives), table, sweep)), allow_nan=False)
    return dict(json.loads(text))


def test_it_holds_the_frontier_with_the_settings_of_its_trials(make_sweep: MakeSweep) -> None:
    settings = {"model": "tiny-phi", "dataset": "authors", "method": "gdiff", "c": 0.25, "lr": 5e-5, "seed": 3}
    content = _written(make_sweep([trial("00007", 6.0, 4.0, **settings), trial("00002", 5.0, 5.0, checkpoint="")]))
    assert content["objectives"] == [
        {"name": "forget_loss", "direction": "max", "bounds": [0.0, 8.0], "column": "forget_loss_capped"},
        {"name": "retain_loss", "direction": "min", "bounds": [0.0, 8.0], "column": "retain_loss"},
    ]
    assert content["reference"] == {"forget_loss": 0.0, "retain_loss": 8.0}
    assert content["hypervolume"] == pytest.approx(0.375)
    (member,) = content["front"]
    assert (member["trial_id"], member["checkpoint"], member["beta"]) == ("00007", "checkpoints/00007", None)
    assert member["objectives"] == {"forget_loss": 6.0, "retain_loss": 4.0}
    assert settings.items() <= member.items()
    assert not {"status", "steps", "retain_loss", "error"} & set(member)
    assert isinstance(member["seed"], int)
    assert content["baseline"] == BASELINE | {"objectives": {"forget_loss": 0.04, "retain_loss": 0.05}}


def test_unknown_values_are_null(make_sweep: MakeSweep) -> None:
    rows = [trial("0", 6.0, 4.0, checkpoint=""), trial("1", 1.0, 1.0, method="gdiff", c=0.5)]
    partly = _written(make_sweep(rows, baseline={"retain_loss": 0.5, "forget_loss_capped": None}))
    assert [(item["trial_id"], item["c"], item["checkpoint"]) for item in partly["front"]] == [
        ("0", None, None),
        ("1", 0.5, "checkpoints/1"),
    ]
    assert partly["baseline"]["objectives"] == {"forget_loss": None, "retain_loss": 0.5}
    never = _written(make_sweep([trial("0", None, None, status="diverged")], baseline=None, name="never"))
    assert (never["front"], never["hypervolume"], never["baseline"]) == ([], 0.0, None)
