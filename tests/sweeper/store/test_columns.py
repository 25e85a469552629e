"""The columns of the tables: their names, on which scripts rely, and their descriptions in sweep.json."""

from __future__ import annotations

import math
from pathlib import Path
from typing import get_args

import pytest

from search_spaces.fields import Role
from sweeper.store.columns import (
    HISTORY_COLUMNS,
    METRIC_COLUMNS,
    PARAMETERS,
    TRIAL_COLUMNS,
    column_dictionary,
    unused_columns,
)

ROLES = {*get_args(Role), "loss", "metric", "cost", "progress", "record", "course"}
KEYS = {"role", "label", "unit", "direction", "bounds", "ideal", "of", "primary", "threshold", "fluency"}


def test_each_column_of_a_sweep_of_a_previous_version_exists_once(golden: Path) -> None:
    for name, columns in (("trials.csv", TRIAL_COLUMNS), ("history.csv", HISTORY_COLUMNS)):
        header = (golden / name).read_text().partition("\n")[0].split(",")
        assert set(header) <= set(columns)
        assert len(set(columns)) == len(columns)


@pytest.fixture
def columns() -> dict[str, dict[str, object]]:
    return column_dictionary(random_guess=math.log(2048), unit="token")


def test_every_column_of_both_tables_is_described(columns: dict[str, dict[str, object]]) -> None:
    assert list(columns) == list(dict.fromkeys([*TRIAL_COLUMNS, *HISTORY_COLUMNS]))
    for name, found in columns.items():
        assert (found["role"] in ROLES, bool(found["label"]), {*found} <= KEYS, None in found.values()) == (
            *(True, True, True, False),
        ), name
    settings = [name for name, found in columns.items() if found["role"] in get_args(Role)]
    results = [name for name, found in columns.items() if found["role"] in ("loss", "metric")]
    assert (settings, results) == (list(PARAMETERS), list(METRIC_COLUMNS))
    roles = {name: columns[name]["role"] for name in ("c", "lr", "auto_lr", "model", "metrics", "data_dir")}
    assert list(roles.values()) == ["method", "training", "auto_lr", "data", "scoring", "placement"]


def test_a_metric_is_described_as_in_the_registry(columns: dict[str, dict[str, object]]) -> None:
    assert columns["verbmem"] == {
        "role": "metric",
        "label": "verbatim memorisation of the forget set",
        "unit": "ROUGE-L recall",
        "direction": "min",
        "bounds": [0.0, 1.0],
        "of": "forget",
        "primary": True,
        "threshold": {"below": 0.1},
    }
    assert (columns["privleak"]["bounds"], columns["privleak"]["ideal"]) == ([-100.0, None], 0.0)
    primary = {name for name, found in columns.items() if found.get("primary")}
    assert primary == {"verbmem", "utility", "forget_accuracy", "retain_accuracy"}
    assert [name for name, found in columns.items() if "threshold" in found] == ["verbmem", "utility", "truth_ratio"]


def test_a_loss_has_the_unit_of_the_data_and_bounds_once_the_target_is_known() -> None:
    before, after = (column_dictionary(random_guess=g, unit="image")["forget_loss"] for g in (None, math.log(10)))
    assert after == before | {"bounds": [0.0, math.log(10)]}
    assert (before["unit"], "bounds" in before) == ("nats per image", False)


def test_a_table_omits_options_of_unused_methods_and_metrics_that_are_not_measured() -> None:
    plain = unused_columns(["gdiff", "ngdiff"], ["default"])
    assert {"beta", "layer", "scale", "mia_loss", "extraction_strength", "privleak", "privleak_distance"} <= plain
    assert not {"c", "lr", "verbmem", "utility", "truth_ratio", "forget_loss_capped", "template"} & plain

    asked = unused_columns(["npo+ngdiff", "rmu"], ["extraction_strength", "mia", "privleak_distance"])
    assert not {"c", "beta", "layer", "scale", "extraction_strength", "mia_loss", "privleak_distance"} & asked
    assert "delta" in asked
    assert unused_columns(["rmu"], ["all"]).isdisjoint(METRIC_COLUMNS)
