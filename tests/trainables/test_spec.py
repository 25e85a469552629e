"""A spec's hash changes only with settings that affect the result, and all problems of a spec are listed."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import Any

import pytest

from tests.facts import assert_names
from trainables.auto_lr.rules import RULES
from trainables.methods import option_names
from trainables.spec import FIELDS, TrialSpec
from trainables.spec_checks import trial_problems

BASE = TrialSpec(method="gdiff")

NOT_DECIDING = {
    *(
        *(name for name, item in FIELDS.items() if item.role == "attack"),
        "model_path",
        "target_path",
        "retain_path",
        "data_dir",
        "template",
        "template_date",
        "micro_batch",
        "auto_lr_log_forget",
    ),
    *("target_epochs", "target_lr", "target_batch_size", "target_lora_rank", "target_seed", "data_seed"),
    "loss_examples",
}
"""Paths, and settings that are a part of the target's key or change no result."""


def other_value(name: str) -> Any:
    if name in ("options", "method"):
        return (("c", 0.123),) if name == "options" else "npo+ngdiff"
    item = FIELDS[name]
    if name == "auto_lr_probe":  # by default, gen probes the same batch
        return "fresh"
    if item.many or item.allowed:
        return ("verbmem",) if item.many else next(value for value in item.allowed if value != item.default)
    if item.kind in (str, bool):
        return "elsewhere" if item.kind is str else not item.default
    return 7 if item.default is None else item.default + 1


OTHER_VALUES = {field.name: other_value(field.name) for field in fields(TrialSpec)}


def where_it_has_an_effect(name: str) -> TrialSpec:
    needed = {key: values[0] for key, values in FIELDS[name].when.items()} if name in FIELDS else {}
    return replace(BASE, **needed)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", OTHER_VALUES)
def test_a_field_that_decides_the_result_changes_the_hash_where_it_has_an_effect(name: str) -> None:
    base = where_it_has_an_effect(name)
    decides = replace(base, **{name: OTHER_VALUES[name]}).spec_hash != base.spec_hash
    assert decides is (name not in NOT_DECIDING)


@pytest.mark.parametrize("name", [name for name, item in FIELDS.items() if item.when])
def test_a_field_without_effect_leaves_the_hash_alone(name: str) -> None:
    change = {name: OTHER_VALUES[name]}
    for needed, effective in FIELDS[name].when.items():
        others = set(FIELDS[needed].allowed) - set(effective)
        assert others
        for value in others:
            base = replace(where_it_has_an_effect(name), **{needed: value})
            assert replace(base, **change).spec_hash == base.spec_hash, value


@pytest.mark.parametrize(
    ("rule", "start", "probe", "batches"),
    [
        *((name, 10, "same", None) for name in RULES if name not in ("curvature", "gen-trust")),
        ("gen-trust", 10, "fresh", 1),
        ("curvature", 1, "fresh", 4),
    ],
)
def test_a_rule_brings_its_own_start_and_probe(rule: str, start: int, probe: str, batches: int | None) -> None:
    """For curvature, four batches of two examples have the eight examples that a probe needs."""
    spec = TrialSpec(auto_lr=rule, batch_size=2)
    assert (spec.auto_lr_start, spec.auto_lr_probe, spec.auto_lr_probe_batches) == (start, probe, batches)
    given = {"auto_lr_start": start, "auto_lr_probe": probe, "auto_lr_probe_batches": batches}
    assert TrialSpec(auto_lr=rule, batch_size=2, **given).spec_hash == spec.spec_hash  # type: ignore[arg-type]
    assert replace(spec, auto_lr_start=7, auto_lr_probe="fresh", auto_lr_probe_batches=3).auto_lr_start == 7


def test_without_a_rule_the_settings_of_autolr_are_empty() -> None:
    spec = TrialSpec()
    assert (spec.auto_lr_start, spec.auto_lr_probe, spec.auto_lr_probe_batches) == (None, None, None)
    assert replace(spec, auto_lr_probe="fresh", auto_lr_delta=0.5).spec_hash == spec.spec_hash


def test_spellings_of_the_same_trial_share_a_hash() -> None:
    """Equal trials: a default given explicitly, another order of options, an alias, and 1 instead of 1.0."""
    assert replace(BASE, options=(("c", BASE.option_values["c"]),)).spec_hash == BASE.spec_hash
    pairs = (("beta", 0.2), ("c", 0.3))
    both = TrialSpec(method="npo+gdiff", options=pairs)
    assert replace(both, options=pairs[::-1]).spec_hash == both.spec_hash
    assert TrialSpec(method="idk-dpo+ngdiff").spec_hash == TrialSpec(method="dpo+ngdiff").spec_hash
    numbers = [name for name, item in FIELDS.items() if item.kind in (int, float)]
    whole = TrialSpec(options=(("c", 1),), **dict.fromkeys(numbers, 1))  # type: ignore[arg-type]
    real = TrialSpec(options=(("c", 1.0),), **dict.fromkeys(numbers, 1.0))  # type: ignore[arg-type]
    assert whole.spec_hash == real.spec_hash


def test_a_row_has_every_field_and_one_column_per_option_empty_where_it_does_not_apply() -> None:
    row = TrialSpec(method="npo+gdiff", options=(("c", 0.3),), seed=4).row()
    assert set(row) == {*FIELDS, *option_names()}
    assert (row["c"], row["beta"], row["seed"]) == (0.3, 0.1, 4)
    assert {name for name in option_names() if row[name] is not None} == {"c", "beta"}


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        ({"dataset": "imagenet"}, ("dataset", "'imagenet'", "authors, tofu")),
        ({"optimizer": "lion"}, ("optimizer", "'lion'", "adamw, sgd")),
        ({"auto_lr": "x"}, ("auto_lr", "'x'", "off, gen, gen-clip, gen-official, gen-trust, curvature")),
        ({"interpolate": "auto"}, ("interpolate", "'auto'", "off, on")),
        *(({"method": name, "retain_objective": "kl"}, ("retain_objective kl", f"'{name}'")) for name in ("rmu", "ga")),
        ({"method": "rmu", "options": (("layer", 1.5),)}, ("layer", "whole number", "1.5")),
        ({"lr": 0.0}, ("lr", "greater than 0", "got 0")),
        ({"momentum": 0.9}, ("momentum", "optimizer sgd", "adamw")),
        ({"optimizer": "dog", "d_growth": 0.5}, ("d_growth", "at least 1", "0.5")),
        ({"max_length": 4}, ("max_length", "at least 8 tokens", "4")),
        ({"options": (("c", 2.0),)}, ("c must be", "2")),
        ({"options": (("beta", 0.1),)}, ("option beta", "'gdiff'", "its options: c")),
        ({"method": "ga", "options": (("c", 0.5),)}, ("option c", "'ga'", "none")),
        ({"dataset": "tofu", "forget_split": "forget50"}, ("'forget50'", "tofu", "'forget05'")),
        ({"model": "tiny-resnet", "dataset": "digits", "micro_batch": 2}, ("micro_batch", "batch normalisation")),
        (
            {"model": "tiny-resnet", "dataset": "digits", "method": "orthograd"},
            ("'orthograd'", "digits", "whole batch"),
        ),
        ({"model": "org/name", "dataset": "digits"}, ("model org/name", "digits", "language", "authors")),
        ({"optimizer": "dog", "auto_lr": "gen"}, ("AutoLR", "dog", "lr")),
    ],
)
def test_a_problem_names_the_setting_the_value_and_the_allowed_ones(
    changes: dict[str, Any], facts: tuple[str, ...]
) -> None:
    (problem,) = trial_problems(replace(BASE, **changes))
    assert_names(problem, *facts)


def test_a_setting_of_another_version_is_named() -> None:
    stored = TrialSpec().to_dict() | {"auto_lr_smoothing": "safe"}
    with pytest.raises(ValueError, match=r"no settings auto_lr_smoothing; another version"):
        TrialSpec.from_dict(stored)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("paper", "is gen$"), ("safe", "--auto-lr curvature --lr-decay linear"), ("officail", "gen-official")],
)
def test_an_unknown_rule_names_what_replaces_it(name: str, hint: str) -> None:
    assert re.search(f"^unknown auto_lr '{name}': .*{hint}", FIELDS["auto_lr"].problem(name) or "")
