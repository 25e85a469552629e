"""The criterion of a sweep whose target has been prepared."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from analysis.tables.sweep_file import FORMAT
from sweeper.checks.criterion import criterion_of_target
from sweeper.store.columns import column_dictionary
from sweeper.store.folder import UsageError

KNOWN, UNKNOWN = (dict.fromkeys(("forget_loss", "retain_loss"), loss) for loss in (0.05, 5.0))
TOLD, UNTOLD = (dict.fromkeys(("forget_fact_recall", "retain_fact_recall"), score) for score in (0.9, 0.0))


def prepared(out: Path, criterion: str, target: Mapping[str, float]) -> Path:
    """Write the sweep.json of a sweep that has prepared its target."""
    columns = column_dictionary(unit="token")
    bounds = {name: {"bounds": [0.0, 7.6]} for name in KNOWN}
    content = {
        "format": FORMAT,
        "settings": {"kind": "pareto", "criterion": criterion},
        "columns": {name: {**values, **bounds.get(name, {})} for name, values in columns.items()},
        "baseline": target,
        "objectives": [],
    }
    (out / "sweep.json").write_text(json.dumps(content))
    return out


def test_a_target_that_knows_the_data_but_scores_0_stops_the_sweep(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"forget fact recall and retain fact recall: .*--criterion paper"):
        criterion_of_target(prepared(tmp_path, "usable", KNOWN | UNTOLD))


@pytest.mark.parametrize(
    ("criterion", "target"), [("usable", KNOWN | TOLD), ("usable", UNKNOWN | UNTOLD), ("none", KNOWN | UNTOLD)]
)
def test_the_sweep_goes_on_without_a_metric_at_fault(tmp_path: Path, criterion: str, target: dict[str, float]) -> None:
    assert "no trial was started" not in criterion_of_target(prepared(tmp_path, criterion, target))


@pytest.mark.parametrize(
    ("target", "columns"),
    [
        (UNKNOWN | TOLD, None),
        (UNKNOWN | UNTOLD, "forget_fact_recall and retain_fact_recall"),
        (UNKNOWN | TOLD | {"retain_fact_recall": 0.0}, "retain_fact_recall"),
        (UNKNOWN | TOLD | {"retain_fact_recall_rephrased": 0.0}, None),
    ],
)
def test_a_target_that_knows_nothing_is_reported_before_the_trials(
    tmp_path: Path, target: dict[str, float], columns: str | None
) -> None:
    text = criterion_of_target(prepared(tmp_path, "usable", target))
    assert (f"because the target scores 0 in {columns}." in text, "--target-lr" in text) == (bool(columns),) * 2
