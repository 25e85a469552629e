"""The columns of the tables: their names, on which scripts rely, and their descriptions in sweep.json."""

from __future__ import annotations

import math
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

TRIALS = """
trial_id spec_hash model dataset method c alpha beta beta1 beta2 delta ema_beta layer leak rate scale target
weight_lr lr auto_lr seed model_path target_path data_dir forget_split forget_class limit target_epochs
target_lr target_batch_size target_lora_rank target_seed data_seed
weight_scale retain_objective auto_lr_smoothing auto_lr_probe
auto_lr_every auto_lr_start auto_lr_probe_batches auto_lr_log_forget optimizer weight_decay momentum d_growth
max_grad_norm epochs max_steps batch_size micro_batch eval_batch_size max_length lora_rank dtype gradient_checkpointing
metrics metrics_every retain_path target_key status steps epochs_done forget_loss retain_loss
forget_loss_capped verbmem knowmem utility forget_repetition retain_repetition forget_longest_loop
retain_longest_loop truth_ratio forget_truth_ratio forget_accuracy retain_accuracy
test_accuracy padding train_seconds eval_seconds wall_seconds checkpoint error started_at first_step_at
ended_at worker forget_probability retain_probability forget_quality model_utility extraction_strength
exact_memorization mia_loss mia_zlib mia_min_k mia_min_k_plus_plus mia_reference privleak mia_loss_distance
mia_zlib_distance mia_min_k_distance mia_min_k_plus_plus_distance mia_reference_distance privleak_distance
generation_seconds interpolation
"""
HISTORY = """
trial_id step epoch lr c_t grad_norm_retain grad_norm_forget grad_norm grad_cosine train_retain_loss
train_forget_loss interpolation forget_loss retain_loss forget_loss_capped verbmem knowmem utility forget_repetition
retain_repetition forget_longest_loop retain_longest_loop truth_ratio forget_truth_ratio forget_accuracy
retain_accuracy test_accuracy violations distance effective_lr
auto_lr_eta_star auto_lr_slope auto_lr_curvature auto_lr_updates auto_lr_not_finite auto_lr_no_descent
auto_lr_no_curvature auto_lr_clipped auto_lr_rolled_back
padding seconds forget_probability retain_probability forget_quality
model_utility extraction_strength exact_memorization mia_loss mia_zlib mia_min_k mia_min_k_plus_plus
mia_reference privleak mia_loss_distance mia_zlib_distance mia_min_k_distance mia_min_k_plus_plus_distance
mia_reference_distance privleak_distance reported_at
"""
ROLES = {*get_args(Role), "loss", "metric", "cost", "progress", "record", "course"}
KEYS = {"role", "label", "unit", "direction", "bounds", "ideal", "of", "primary", "threshold", "fluency"}


def test_each_column_that_scripts_rely_on_exists_once() -> None:
    assert set(TRIALS.split()) <= set(TRIAL_COLUMNS)
    assert set(HISTORY.split()) <= set(HISTORY_COLUMNS)
    for columns in (TRIAL_COLUMNS, HISTORY_COLUMNS):
        assert len(set(columns)) == len(columns)


@pytest.fixture
def columns() -> dict[str, dict[str, object]]:
    return column_dictionary(random_guess=math.log(2048), unit="token")


def test_every_column_of_both_tables_is_described(columns: dict[str, dict[str, object]]) -> None:
    assert list(columns) == list(dict.fromkeys([*TRIAL_COLUMNS, *HISTORY_COLUMNS]))
    for name, found in columns.items():
        assert found["role"] in ROLES, name
        assert found["label"], name
        assert set(found) <= KEYS, name
        assert None not in found.values(), name


def test_a_setting_has_the_role_of_its_field(columns: dict[str, dict[str, object]]) -> None:
    asked = [name for name, found in columns.items() if found["role"] in get_args(Role)]
    assert asked == list(PARAMETERS)
    roles = {name: columns[name]["role"] for name in ("c", "lr", "auto_lr", "model", "metrics", "data_dir")}
    assert list(roles.values()) == ["method", "training", "auto_lr", "data", "scoring", "placement"]


def test_a_result_is_a_loss_or_a_metric_as_in_the_registry(columns: dict[str, dict[str, object]]) -> None:
    assert [name for name, found in columns.items() if found["role"] in ("loss", "metric")] == list(METRIC_COLUMNS)
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
    assert columns["privleak"]["bounds"] == [-100.0, None]
    assert columns["privleak"]["ideal"] == 0.0
    assert {name for name, found in columns.items() if found.get("primary")} == {
        *("verbmem", "utility", "forget_accuracy", "retain_accuracy")
    }
    assert [name for name, found in columns.items() if "threshold" in found] == ["verbmem", "utility", "truth_ratio"]


def test_a_loss_has_the_unit_of_the_data_and_bounds_once_the_target_is_known() -> None:
    before = column_dictionary(random_guess=None, unit="image")["forget_loss"]
    after = column_dictionary(random_guess=math.log(10), unit="image")["forget_loss"]
    assert before["unit"] == after["unit"] == "nats per image"
    assert "bounds" not in before
    assert after["bounds"] == [0.0, math.log(10)]


def test_a_table_omits_options_of_unused_methods_and_metrics_that_are_not_measured() -> None:
    plain = unused_columns(["gdiff", "ngdiff"], ["default"])
    assert {"beta", "layer", "scale", "mia_loss", "extraction_strength", "privleak", "privleak_distance"} <= plain
    assert not {"c", "lr", "verbmem", "utility", "truth_ratio", "forget_loss_capped", "template"} & plain

    asked = unused_columns(["npo+ngdiff", "rmu"], ["extraction_strength", "mia", "privleak_distance"])
    assert not {"c", "beta", "layer", "scale", "extraction_strength", "mia_loss", "privleak_distance"} & asked
    assert "delta" in asked
    assert unused_columns(["rmu"], ["all"]).isdisjoint(METRIC_COLUMNS)
