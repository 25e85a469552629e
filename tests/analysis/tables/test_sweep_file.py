"""sweep.json as the analysis reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.errors import AnalysisError
from analysis.tables.sweep_file import SweepFile
from tests.analysis.conftest import MakeSweep


def test_it_knows_objectives_baseline_and_plan(make_sweep: MakeSweep) -> None:
    sweep = SweepFile.read(make_sweep([], settings={"trials": 16}))
    assert [(item.name, item.column, item.direction) for item in sweep.objectives] == [
        ("forget_loss", "forget_loss_capped", "max"),
        ("retain_loss", "retain_loss", "min"),
    ]
    assert sweep.random_guess_loss == 8.0
    assert sweep.planned_trials == 16
    assert sweep.baseline_objectives() == {"forget_loss": 0.04, "retain_loss": 0.05}


def test_before_the_target_is_made_much_is_unknown(make_sweep: MakeSweep) -> None:
    sweep = SweepFile.read(make_sweep(None, objectives=None, random_guess_loss=None, baseline=None))
    assert (sweep.objectives, sweep.random_guess_loss, dict(sweep.baseline)) == ((), None, {})


def test_a_metric_that_is_no_number_is_not_in_the_baseline(make_sweep: MakeSweep) -> None:
    sweep = SweepFile.read(make_sweep([], baseline={"verbmem": float("nan"), "utility": None, "retain_loss": 1}))
    assert dict(sweep.baseline) == {"retain_loss": 1.0}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "holds no sweep: there is no sweep.json in it"),
        ('{"format": 2,', "is not JSON"),
        ('{"format": 1}', "has format 1, expected 2: it is from another version"),
        ("{}", "has format None, expected 2"),
        ("[1]", "has format list, expected 2"),
        ('{"format": 2, "settings": [1]}', "'settings' is list, expected an object"),
        ('{"format": 2, "objectives": [{"name": "x"}]}', "has no 'low'"),
    ],
)
def test_what_is_no_sweep_is_refused_in_a_sentence(tmp_path: Path, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / "sweep.json").write_text(text)
    with pytest.raises(AnalysisError, match=message):
        SweepFile.read(tmp_path)
