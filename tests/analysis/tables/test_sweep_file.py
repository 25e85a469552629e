"""Reading sweep.json."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.errors import AnalysisError
from analysis.tables.sweep_file import SweepFile
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
    ],
)
def test_a_folder_without_a_valid_sweep_file_is_refused(tmp_path: Path, text: str | None, named: str) -> None:
    if text is not None:
        (tmp_path / "sweep.json").write_text(text)
    with pytest.raises(AnalysisError, match=named):
        SweepFile.read(tmp_path)
