"""Reading sweep.json, and the objectives in it."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from analysis.errors import AnalysisError
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trade_off import Objective
from tests.analysis.conftest import MakeSweep


def test_missing_and_invalid_values_are_unknown(make_sweep: MakeSweep) -> None:
    sweep = SweepFile.read(make_sweep(None, objectives=None, random_guess_loss=None, baseline=None))
    assert (sweep.objectives, sweep.random_guess_loss, sweep.baseline, sweep.planned_trials) == ((), None, {}, 0)
    baseline = {"verbmem": float("nan"), "utility": None, "retain_loss": 1}
    partly = SweepFile.read(make_sweep([], baseline=baseline, settings={}, name="partly"))
    assert (partly.baseline, partly.planned_trials) == ({"retain_loss": 1.0}, None)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (None, "sweep.json"),
        ('{"format": 2,', "JSON"),
        ('{"format": 1}', "format 1.*2"),
        ("{}", "format None.*2"),
        ("[1]", "format list.*2"),
        ('{"format": 2, "settings": [1]}', "'settings'.*object"),
        ('{"format": 2, "objectives": [{"name": "x"}]}', "'low'"),
        ('{"format": 2, "objectives": [{"name": "x", "low": "none", "high": 8}]}', "bounds"),
        ('{"format": 2, "objectives": [{"name": "x", "low": 0, "high": 8, "direction": "up"}]}', "'up'.*min or max"),
        ('{"format": 2, "objectives": [{"name": "x", "low": 8, "high": 8, "direction": "min"}]}', "low < high"),
    ],
)
def test_a_folder_without_a_valid_sweep_file_is_refused(tmp_path: Path, text: str | None, named: str) -> None:
    if text is not None:
        (tmp_path / "sweep.json").write_text(text)
    with pytest.raises(AnalysisError, match=named):
        SweepFile.read(tmp_path)


def test_a_cost_is_0_at_the_best_and_1_at_the_worst_bound() -> None:
    entry: dict[str, object] = {"name": "loss", "direction": "min", "low": 0.0, "high": 8.0}
    small, large = Objective.from_dict(entry), Objective.from_dict(entry | {"direction": "max"})
    assert small.cost([-3.0, 0.0, 2.0, 8.0, 500.0, math.inf]).tolist() == [0.0, 0.0, 0.25, 1.0, 1.0, 1.0]
    assert large.cost([0.0, 2.0, 8.0]).tolist() == [1.0, 0.75, 0.0]
    assert (small.worst, large.worst, small.column, small.label) == (8.0, 0.0, "loss", "loss")
    assert large.oriented([0.1, 8.0]).tolist() == [-0.1, -8.0]
    assert Objective.from_dict(entry | {"low": 2.0, "high": 4.0}).cost([2.0, 2.5, 4.0]).tolist() == [0.0, 0.25, 1.0]
