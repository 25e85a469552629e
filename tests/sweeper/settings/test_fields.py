"""The description of a trial field defines its option, its checks, its key in space files and its column."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import optuna
import pytest

from search_spaces.fields import Field
from search_spaces.user_yaml import load_space
from sweeper.cli.main import main
from sweeper.settings.spaces import file_space, space_fields
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.store.columns import TRIAL_COLUMNS
from trainables.methods import OPTIONS, option_names
from trainables.spec import FIELDS, TrialSpec
from trainables.spec_checks import trial_problems

WRONG: dict[type, tuple[Any, ...]] = {
    float: ("text", True, ["list"], {"nested": 1}, float("nan"), float("inf")),
    int: ("text", True, ["list"], {"nested": 1}, 1.5, float("nan")),
    str: (5, 0.5, True, ["list"], {"nested": 1}),
    bool: ("text", 5, ["list"], {"nested": 1}),
}
"""Values that are invalid for each kind of field."""
YAML = {
    "a text": "words",
    "a text in quotes": "'0.5'",
    "a number": "0.5",
    "a whole number": "7",
    "zero": "0",
    "a negative number": "-3",
    "too large for a float": "1e999",
    "a switch": "on",
    "null": "null",
    "nothing": "",
    "a date": "2025-01-01",
    "a list of everything": "[words, 0.5, 7, true, null]",
    "a list in a list": "[[1, 2], 3]",
    "an empty list": "[]",
    "a mapping": "{a: 1}",
    "a range": "{low: 1, high: 2}",
    "a range of texts": "{low: words, high: more}",
    "a range upside down": "{low: 2, high: 1}",
    "half a range": "{low: 1}",
    "a range of shares": "{low: 0.1, high: 0.9, log_to_one: true}",
    "values of nothing": "{values: }",
    "a condition on nothing": "{values: [1, 2], when: {nothing: 1}}",
    "a condition on itself": "{values: [1, 2], when: {lr: 1}}",
    "another tag": "!!binary aGk=",
    "an object": "!!python/object:os.system {}",
}


@pytest.mark.parametrize("item", FIELDS.values(), ids=FIELDS)
def test_every_field_is_a_column_and_an_option_of_the_commands_it_concerns(item: Field) -> None:
    assert item.name in TrialSpec().row()
    assert item.name in TRIAL_COLUMNS
    if not item.flag:
        assert item.name == "target_key"
        return
    expected = {"pareto", "unlearn"} | ({"lr-study"} if item.name != "auto_lr" else set())
    if item.role == "data":
        expected |= {"target"} if item.name.startswith("target_") else {"target", "evaluate"}
    has = {name for name, command in main.commands.items() for option in command.params if item.flag in option.opts}
    assert expected <= has
    assert ("lr-study" in has) is (item.name != "auto_lr")
    for name in ("pareto", "unlearn"):
        (option,) = [found for found in main.commands[name].params if item.flag in found.opts]
        assert isinstance(option, click.Option)
        assert option.name == item.name
        assert option.help


@pytest.mark.parametrize("item", FIELDS.values(), ids=FIELDS)
def test_the_default_of_every_field_is_right_and_a_value_of_another_kind_is_wrong(item: Field) -> None:
    assert item.problem(item.default) is None
    for value in WRONG[item.kind]:
        change: dict[str, Any] = {item.name: (value,) if item.many else value}
        assert item.problem(change[item.name]), value
        assert any(item.name in problem for problem in trial_problems(replace(TrialSpec(), **change))), value


@pytest.mark.parametrize("item", FIELDS.values(), ids=FIELDS)
def test_a_space_varies_every_field_or_refuses_it_with_the_line_and_the_option(item: Field, tmp_path: Path) -> None:
    number = "9" if item.high >= 9 else "1"
    value = "yes" if item.kind is bool else next(iter(item.allowed), "gdiff") if item.kind is str else number
    path = tmp_path / "s.yaml"
    path.write_text(f"{item.name}: {value}\n")
    file = load_space(path, space_fields())
    if not item.fixed:
        assert file.problems == ()
        assert type(file.space.constants[item.name]) is item.kind
        return
    (problem,) = file.problems
    assert problem.startswith(f"{path}:1: {item.name}: ")
    assert item.flag in problem
    assert file.space.constants == {}


def test_what_all_trials_share_cannot_vary() -> None:
    shared = {item.name for item in FIELDS.values() if item.fixed}
    assert {"forget_class", "target_lora_rank", "retain_path", "metrics", "seed", "target_key", "max_length"} <= shared
    assert {item.name for item in FIELDS.values() if item.role in ("data", "placement")} <= shared
    assert not shared & {"method", "lr", "auto_lr", "epochs", "optimizer", "metrics_every"}


# Any value of any kind for any name ----------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [*FIELDS, *OPTIONS, *option_names(), "options", "unknown"])
def test_whatever_a_space_file_says_is_run_or_refused_with_its_line(key: str, tmp_path: Path) -> None:
    path = tmp_path / "space.yaml"
    method = "" if key == "method" else "method: [gdiff, npo]\n"
    for kind, value in YAML.items():
        path.write_text(f"{method}{key}: {value}\n")
        space, problems = file_space(path, TrialSpec())
        for problem in problems:
            assert problem.startswith((f"{path}:1: ", f"{path}:2: ")), (kind, problem)
        if not problems:
            settings = SweepSettings(name="s", base=TrialSpec(), space=space, trials=2)
            trials = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
            for _ in range(2):
                assert trial_problems(settings.make_spec(space.suggest(trials.ask()), target_key="k")) == [], kind
