"""A spec's hash changes with whatever decides the result and with nothing else; all its problems are told at once."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import fields, replace
from typing import Any

import pytest

from trainables.methods import option_names
from trainables.spec import FIELDS, TrialSpec
from trainables.spec_checks import trial_problems

BASE = TrialSpec(method="gdiff")

OTHER_VALUES: dict[str, Any] = {
    "model": "phi-1.5",
    "dataset": "tofu",
    "forget_split": "forget05",
    "forget_class": "cat",
    "limit": 40,
    "method": "npo+ngdiff",
    "options": (("c", 0.123),),
    "weight_scale": "unit",
    "retain_objective": "kl",
    "interpolate": "on",
    "lr": 1.1e-4,
    "auto_lr": "on",
    "auto_lr_smoothing": "paper",
    "auto_lr_probe": "same",
    "auto_lr_every": 11,
    "auto_lr_start": 2,
    "optimizer": "sgd",
    "weight_decay": 0.01,
    "momentum": 0.9,
    "d_growth": 1.5,
    "max_grad_norm": 1.0,
    "epochs": 16,
    "max_steps": 7,
    "batch_size": 9,
    "eval_batch_size": 33,
    "max_length": 511,
    "lora_rank": 8,
    "dtype": "bf16",
    "gradient_checkpointing": True,
    "auto_lr_probe_batches": 3,
    "metrics": ("verbmem",),
    "metrics_every": 3,
    "eval_every": 2,
    "seed": 1,
    "target_key": "fedcba9876543210",
}
NOT_DECIDING: dict[str, Any] = {
    "model_path": "elsewhere",
    "target_path": "elsewhere",
    "retain_path": "elsewhere",
    "data_dir": "elsewhere",
    "template": "chat",
    "target_epochs": 3,
    "target_lr": 1e-2,
    "target_batch_size": 3,
    "target_lora_rank": 4,
    "target_seed": 7,
    "data_seed": 7,
    "loss_examples": 9,
    "micro_batch": 2,
    "auto_lr_log_forget": False,
}


def where_it_has_an_effect(name: str) -> TrialSpec:
    """The base with the values a field waits for."""
    waited = {key: values[0] for key, values in FIELDS[name].when.items()} if name in FIELDS else {}
    return replace(BASE, **waited)  # type: ignore[arg-type]


def test_every_field_either_decides_the_result_or_is_covered_by_the_target_key() -> None:
    assert {field.name for field in fields(TrialSpec)} == set(OTHER_VALUES) | set(NOT_DECIDING)
    assert {name for name, item in FIELDS.items() if not item.decides} == set(NOT_DECIDING)
    assert {field.name for field in fields(TrialSpec)} == {*FIELDS, "options"}


@pytest.mark.parametrize("name", OTHER_VALUES)
def test_a_field_that_decides_the_result_changes_the_hash_where_it_has_an_effect(name: str) -> None:
    base = where_it_has_an_effect(name)
    assert replace(base, **{name: OTHER_VALUES[name]}).spec_hash != base.spec_hash


@pytest.mark.parametrize("name", [name for name, item in FIELDS.items() if item.when])
def test_a_field_without_effect_does_not(name: str) -> None:
    for waited in FIELDS[name].when:
        base = replace(where_it_has_an_effect(name), **{waited: FIELDS[waited].default})
        if not FIELDS[name].has_effect(base.values()):
            change = {name: (OTHER_VALUES | NOT_DECIDING)[name]}
            assert replace(base, **change).spec_hash == base.spec_hash


def test_interpolation_is_in_the_hash_by_what_it_amounts_to() -> None:
    def hashed(**given: Any) -> str:
        return replace(BASE, **given).spec_hash

    assert hashed() == hashed(interpolate="off") != hashed(interpolate="on")
    assert hashed(auto_lr="on") == hashed(auto_lr="on", interpolate="on") != hashed(auto_lr="on", interpolate="off")
    paper = {"auto_lr": "on", "auto_lr_smoothing": "paper"}
    assert hashed(**paper) == hashed(**paper, interpolate="off") != hashed(**paper, interpolate="on")


@pytest.mark.parametrize("name", ["auto_lr_smoothing", "auto_lr_probe", "auto_lr_every", "auto_lr_start"])
def test_autolrs_settings_decide_nothing_where_it_is_off(name: str) -> None:
    assert replace(BASE, **{name: OTHER_VALUES[name]}).spec_hash == BASE.spec_hash


def test_how_many_batches_a_fresh_probe_has_decides_nothing_of_another() -> None:
    hashes = {
        probe: [TrialSpec(auto_lr="on", auto_lr_probe=probe, auto_lr_probe_batches=n).spec_hash for n in (1, 4)]
        for probe in ("same", "fresh")
    }
    assert hashes["same"][0] == hashes["same"][1]
    assert hashes["fresh"][0] != hashes["fresh"][1]


@pytest.mark.parametrize("name", NOT_DECIDING)
def test_where_things_lie_and_how_the_target_was_made_do_not(name: str) -> None:
    assert replace(BASE, **{name: NOT_DECIDING[name]}).spec_hash == BASE.spec_hash


def test_no_two_changes_share_a_hash() -> None:
    alone = [name for name in OTHER_VALUES if not (name in FIELDS and FIELDS[name].when)]
    hashes = {replace(BASE, **{name: OTHER_VALUES[name]}).spec_hash for name in alone}
    assert len(hashes) == len(alone)
    assert all(len(digest) == 16 and set(digest) <= set("0123456789abcdef") for digest in hashes)


def test_a_default_given_explicitly_is_the_default() -> None:
    default = BASE.option_values["c"]
    assert replace(BASE, options=(("c", default),)).spec_hash == BASE.spec_hash


def test_the_order_of_options_does_not_matter() -> None:
    pairs = (("beta", 0.2), ("c", 0.3))
    both = TrialSpec(method="npo+gdiff", options=pairs)
    assert replace(both, options=pairs[::-1]).spec_hash == both.spec_hash


def test_an_alias_names_the_same_trial() -> None:
    assert TrialSpec(method="idk-dpo+ngdiff").spec_hash == TrialSpec(method="dpo+ngdiff").spec_hash


@pytest.mark.parametrize(
    ("method", "retain_objective", "needed"),
    [("npo", "ce", False), ("dpo+gdiff", "ce", False), ("undial", "ce", True), ("rmu", "ce", True), ("gd", "kl", True)],
)
def test_only_what_cannot_be_precomputed_needs_the_frozen_target(
    method: str, retain_objective: str, needed: bool
) -> None:
    assert TrialSpec(method=method, retain_objective=retain_objective).needs_frozen_target is needed


def test_a_whole_number_names_the_same_trial_as_its_float() -> None:
    """A file says ``lr: 1`` or ``c: 1`` where a search says 1.0."""
    whole = TrialSpec(options=(("c", 1),), **{name: 1 for name, item in FIELDS.items() if item.kind in (int, float)})
    real = TrialSpec(options=(("c", 1.0),), **{name: 1.0 for name, item in FIELDS.items() if item.kind in (int, float)})  # type: ignore[arg-type]
    assert whole.spec_hash == real.spec_hash


def test_the_hash_is_the_same_in_every_process() -> None:
    script = "from trainables.spec import TrialSpec; print(TrialSpec(method='npo+gdiff', lr=3e-5).spec_hash)"
    environment = {**os.environ, "PYTHONHASHSEED": "5"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == TrialSpec(method="npo+gdiff", lr=3e-5).spec_hash


@pytest.mark.parametrize(
    "spec", [BASE, replace(BASE, **OTHER_VALUES), TrialSpec(method="npo+gdiff", options=(("c", 0.3),))]
)
def test_a_spec_comes_back_from_json(spec: TrialSpec) -> None:
    back = TrialSpec.from_dict(json.loads(json.dumps(spec.to_dict())))
    assert back == replace(spec, options=tuple(sorted(spec.options)))
    assert back.spec_hash == spec.spec_hash


def test_a_row_has_every_field_and_one_column_per_option_empty_where_it_does_not_apply() -> None:
    row = TrialSpec(method="npo+gdiff", options=(("c", 0.3),), seed=4).row()
    assert set(row) == {*FIELDS, *option_names()}
    assert (row["c"], row["beta"], row["seed"]) == (0.3, 0.1, 4)
    assert {name for name in option_names() if row[name] is not None} == {"c", "beta"}


# Problems ------------------------------------------------------------------------------------------------------------


def test_the_defaults_have_no_problem() -> None:
    assert trial_problems(TrialSpec()) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"dataset": "imagenet"}, "unknown dataset 'imagenet': expected one of authors, tofu"),
        ({"optimizer": "lion"}, "unknown optimizer 'lion': expected one of adamw, sgd"),
        ({"auto_lr": "maybe"}, "unknown auto_lr 'maybe': expected one of on, off"),
        ({"auto_lr_smoothing": "x"}, "unknown auto_lr_smoothing 'x': expected one of paper, clip, official"),
        ({"auto_lr_probe": "x"}, "unknown auto_lr_probe 'x': expected one of same, fresh"),
        ({"weight_scale": "x"}, "unknown weight_scale 'x': expected one of raw, unit"),
        ({"dtype": "fp8"}, "unknown dtype 'fp8': expected one of fp32, bf16"),
        ({"retain_objective": "x"}, "unknown retain_objective 'x': expected one of ce, kl"),
        ({"method": "rmu", "retain_objective": "kl"}, "retain_objective kl does not go with method 'rmu'"),
        ({"method": "npo", "retain_objective": "kl"}, "retain_objective kl makes no sense with method 'npo'"),
        ({"method": "rmu", "options": (("layer", 1.5),)}, "layer must be a whole number, got 1.5"),
        ({"method": "rmu", "options": (("layer", -2.0),)}, "layer must be in [-1, 1000], got -2"),
        ({"lr": 0.0}, "lr must be a finite number greater than 0, got 0"),
        ({"lr": math.nan}, "lr must be a finite number greater than 0, got nan"),
        ({"lr": math.inf}, "lr must be a finite number greater than 0, got inf"),
        ({"weight_decay": -0.1}, "weight_decay must be a finite number, at least 0, got -0.1"),
        ({"momentum": 0.9}, "momentum applies to optimizer sgd only, got adamw"),
        ({"max_grad_norm": 0.0}, "max_grad_norm must be a finite number greater than 0, got 0"),
        ({"max_grad_norm": math.nan}, "max_grad_norm must be a finite number greater than 0, got nan"),
        ({"max_length": 4}, "max_length must be at least 8 tokens, got 4"),
        ({"method": "nonsense"}, "unknown method 'nonsense': expected one of gd, ga"),
        ({"options": (("c", 2.0),)}, "c must be in"),
        ({"options": (("beta", 0.1),)}, "option beta does not apply to method 'gdiff' (its options: c)"),
        ({"method": "ga", "options": (("c", 0.5),)}, "option c does not apply to method 'ga' (its options: none)"),
        (
            {"dataset": "tofu", "forget_split": "forget50"},
            "forget split 'forget50' does not fit data set tofu: did you mean 'forget05'? expected",
        ),
        ({"forget_split": "forget10"}, "forget split 'forget10' does not fit data set authors: this data set has no"),
    ],
)
def test_a_problem_is_told_with_what_was_given_and_expected(changes: dict[str, Any], said: str) -> None:
    (problem,) = trial_problems(replace(BASE, **changes))
    assert problem.startswith(said)


@pytest.mark.parametrize(
    "name",
    ["epochs", "max_steps", "batch_size", "eval_batch_size", "limit", "lora_rank", "auto_lr_every", "auto_lr_start"],
)
def test_counts_start_at_one(name: str) -> None:
    none: dict[str, Any] = {name: 0}
    one: dict[str, Any] = {name: 1}
    assert trial_problems(replace(BASE, **none)) == [f"{name} must be at least 1, got 0"]
    assert trial_problems(replace(BASE, **one)) == []


def test_all_problems_are_told_at_once() -> None:
    """Also beside an unknown method, which leaves nothing to check its options against."""
    spec = TrialSpec(
        dataset="imagenet", method="nonsense", options=(("c", 5.0),), lr=-1.0, auto_lr_every=0, epochs=0, dtype="fp8"
    )
    found = trial_problems(spec)
    assert len(found) == 6
    for word in ("dataset", "nonsense", "lr must", "auto_lr_every", "epochs", "dtype"):
        assert any(word in problem for problem in found)


def test_each_bad_option_of_a_known_method_is_told() -> None:
    spec = TrialSpec(method="npo+gdiff", options=(("alpha", 1.0), ("beta", -1.0), ("c", 5.0)))
    assert len(trial_problems(spec)) == 3
