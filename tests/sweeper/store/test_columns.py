"""The columns of the tables: their names, on which scripts rely, and their descriptions in sweep.json."""

from __future__ import annotations

import math
from pathlib import Path
from typing import get_args

from search_spaces.common.fields import Role
from sweeper.store.columns import (
    CANDIDATE_COLUMNS,
    HISTORY_COLUMNS,
    METRIC_COLUMNS,
    PARAMETERS,
    TRIAL_COLUMNS,
    column_dictionary,
    unused_columns,
)
from trainables.metrics.registry import METRICS


def test_each_column_of_a_sweep_exists_once(golden: Path) -> None:
    for name, columns in (("trials.csv", TRIAL_COLUMNS), ("history.csv", HISTORY_COLUMNS)):
        header = (golden / name).read_text().partition("\n")[0].split(",")
        assert set(header) <= set(columns)
        assert len(set(columns)) == len(columns)


def test_every_column_of_the_tables_is_described_and_a_metric_as_in_the_registry() -> None:
    columns = column_dictionary(random_guess=math.log(2048), unit="token")
    assert list(columns) == list(dict.fromkeys([*TRIAL_COLUMNS, *HISTORY_COLUMNS, *CANDIDATE_COLUMNS]))
    assert all(found["label"] and None not in found.values() for found in columns.values())
    settings = [name for name, found in columns.items() if found["role"] in get_args(Role)]
    results = [name for name, found in columns.items() if found["role"] in ("loss", "metric")]
    assert (settings, results) == (list(PARAMETERS), [*METRIC_COLUMNS, "ignorance_p", "knowledge_p"])
    expected = {"direction": "min", "bounds": [0.0, 1.0], "of": "forget", "primary": True, "threshold": {"below": 0.1}}
    assert expected.items() <= columns["verbmem"].items()
    assert (columns["privleak"]["bounds"], columns["privleak"]["ideal"]) == ([-100.0, None], 0.0)


def test_a_loss_has_the_unit_of_the_data_and_bounds_once_the_target_is_known() -> None:
    before, after = (column_dictionary(random_guess=g, unit="image")["forget_loss"] for g in (None, math.log(10)))
    assert after == before | {"bounds": [0.0, math.log(10)]}
    assert (before["unit"], "bounds" in before) == ("nats per image", False)


def test_a_table_omits_options_of_unused_methods_and_metrics_that_are_not_measured() -> None:
    plain, asked = unused_columns(["gdiff"], ["default"]), unused_columns(["npo+ngdiff", "rmu"], ["privleak_distance"])
    assert {"beta", "layer", "mia_loss", "privleak", "privleak_distance"} <= plain
    assert plain.isdisjoint({"c", "lr", "verbmem", "utility"})
    assert {"ignorance_p", "knowledge_p"} == plain - unused_columns(["gdiff"], ["default"], audit=True)
    assert {"delta", "mia_loss"} <= asked
    assert asked.isdisjoint({"c", "beta", "layer", "privleak_distance"})
    attacked = {name for name, metric in METRICS.items() if metric.attack}
    assert unused_columns(["rmu"], ["all"]) & set(METRIC_COLUMNS) == attacked
    images = unused_columns(["rmu"], ["all", "quantize"], modality="vision")
    assert images & {"forget_accuracy_after_nf4", "verbmem_after_nf4"} == {"verbmem_after_nf4"}
