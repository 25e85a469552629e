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


def test_values_that_are_missing_or_no_numbers_are_unknown(make_sweep: MakeSweep) -> None:
    sweep = SweepFile.read(make_sweep(None, objectives=None, random_guess_loss=None, baseline=None))
    assert (sweep.objectives, sweep.random_guess_loss, dict(sweep.baseline)) == ((), None, {})
    baseline = {"verbmem": float("nan"), "utility": None, "retain_loss": 1}
    assert dict(SweepFile.read(make_sweep([], baseline=baseline, name="partly")).baseline) == {"retain_loss": 1.0}


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
    ],
)
def test_a_folder_without_a_valid_sweep_file_is_refused(tmp_path: Path, text: str | None, named: str) -> None:
    if text is not None:
        (tmp_path / "sweep.json").write_text(text)
    with pytest.raises(AnalysisError, match=named):
        SweepFile.read(tmp_path)
