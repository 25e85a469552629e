"""The command line, a file, Python and the records of a sweep give equal settings."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from search_spaces.common.fields import Field
from sweeper.cli.folder import config_text
from sweeper.cli.main import main
from sweeper.cli.options import given_values
from sweeper.settings.fields import fields_of, options_of
from sweeper.settings.options import (
    COMMANDS,
    ParetoOptions,
    ResumeOptions,
    RunOptions,
    StudyOptions,
    SweepOptions,
)
from sweeper.settings.resolve import Resolved, resolve
from sweeper.settings.sources import Options, Raw, from_json, from_python, from_yaml, to_json
from sweeper.settings.sweep_settings import CHANGEABLE, SweepSettings

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "method": st.sampled_from(("gdiff", "ngdiff", "npo+ngdiff", "rmu", "nonsense")),
    "option": st.sampled_from(("beta=0.5", "c=0.3", "layer=1", "warmth=1", "c")),
    "metrics": st.sampled_from(("verbmem", "default,worst_answer", "verbmen")),
    "objectives": st.sampled_from(("verbmem:min,utility:max", "speed:max")),
    "constraint": st.sampled_from(("utility>=0.7", "verbmem<=10%", "utility")),
    "enqueue": st.sampled_from(("lr=1e-4", "lr=1e-4,c=0.5")),
    "until": st.sampled_from(("plateau", "plateau:5:0.01", "never")),
    "model": st.sampled_from(("tiny-phi", "tiny-resnet", "gpt-9")),
    "dataset": st.sampled_from(("authors", "digits", "tofu")),
    "space": st.just("paper"),
}
ALL = ("method", "lr", "c", "epochs", "trials", "seeds", "sampler", "auto_lr", "batch_size", "gradient_checkpointing")
"""Options that are drawn more often than the others."""


def strategy(item: Field) -> st.SearchStrategy[Any]:
    """Return values of a field: most are valid, some are not."""
    if item.kind is bool:
        one: st.SearchStrategy[Any] = st.booleans()
    elif item.kind is int:
        one = st.integers(0, 20)
    elif item.kind is float:
        one = st.floats(0, 2) | st.sampled_from((1e-4, 1e-5, 0.5))
    else:
        one = VALUES.get(item.name, st.sampled_from([*item.allowed, "on", "grid"]))
    return st.lists(one, min_size=1, max_size=3) if item.repeats else one


@st.composite
def options(draw: st.DrawFn, command: type[Options]) -> dict[str, Any]:
    """Draw some options of a command with values."""
    fields = {
        name: item
        for name, item in fields_of(command).items()
        if not item.is_path or name in VALUES
        if name not in ("template", "address", "tracking_uri", "folders")
    }
    often = draw(st.lists(st.sampled_from([name for name in ALL if name in fields]), unique=True, max_size=4))
    names = draw(st.lists(st.sampled_from(sorted(fields)), unique=True, max_size=4))
    return {name: draw(strategy(fields[name])) for name in dict.fromkeys((*often, *names))}


def outcome(command: type[RunOptions | SweepOptions], raw: Raw) -> tuple[Any, ...]:
    """Return the resolved settings and problems, without files and lines. sweep.json keeps the settings."""
    found: Resolved[Any] = resolve(command, raw)
    result = None
    if found.settings is not None:
        result = {**found.settings.to_dict(), "given": None}
        assert SweepSettings.from_dict(json.loads(json.dumps(found.settings.to_dict()))) == found.settings
    return result, found.base, [re.sub(r"^\S+\.yaml:\d+: ", "", text) for text in found.messages]


@pytest.mark.parametrize("command", [ParetoOptions, StudyOptions, RunOptions])
def test_python_the_command_line_a_file_and_a_sweeps_records_give_equal_settings(
    command: type[RunOptions | SweepOptions], tmp_path: Path
) -> None:
    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
    @given(options(command))
    def check(keywords: dict[str, Any]) -> None:
        python = from_python(command, keywords)
        path = tmp_path / "options.yaml"
        path.write_text(yaml.safe_dump(keywords), encoding="utf-8")
        filed, problems = from_yaml(command, path)
        assert problems == []
        expected = outcome(command, python)
        flags = {name: fields_of(command)[name].flag for name in keywords}
        argv = [
            word
            for name, value in keywords.items()
            for one in (value if isinstance(value, list) else [value])
            for word in ([flags[name]] if one is True else [] if one is False else [flags[name], str(one)])
        ]
        negated = {name for name, value in keywords.items() if value is False and fields_of(command)[name].default}
        argv += [flags[name].replace("--", "--no-", 1) for name in sorted(negated)]
        with main.commands[command.command].make_context(command.command, argv):
            assert outcome(command, given_values(command, None)[0]) == expected
        typed_only = [text for text in expected[2] if "has no effect" in text or "applies only to" in text]
        if not typed_only:  # an option without effect is refused only where it was typed
            assert outcome(command, filed) == expected
        assert outcome(command, from_json(json.loads(json.dumps(to_json(python))))) == expected
        if (sweep := resolve(command, python).settings) is not None:
            path.write_text(config_text(sweep, plugins={}), encoding="utf-8")
            assert outcome(command, from_yaml(command, path)[0]) == expected, "the file that config prints"
            with main.commands[command.command].make_context(command.command, shlex.split(sweep.command)[4:]):
                assert outcome(command, given_values(command, None)[0]) == expected, "the recorded command"

    check()


def test_resume_changes_the_settings_that_it_has_as_options() -> None:
    assert set(CHANGEABLE) == {"trials", "epoch_budget", "until", "address", "no_ship", "extend", "attacks"}
    assert set(fields_of(ResumeOptions)) == {*CHANGEABLE, "out", "retry"}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_the_options_of_its_dataclass(command: str) -> None:
    described = fields_of(COMMANDS[command])
    parameters = {item.name: item for item in main.commands[command].params}
    assert described.keys() <= parameters.keys()
    for name, field in described.items():
        assert field.flag in parameters[name].opts
        assert field.help in str(getattr(parameters[name], "help", ""))


def test_an_option_follows_the_option_that_it_names() -> None:
    for options_type in COMMANDS.values():
        names = list(fields_of(options_type))
        for name, option in options_of(options_type).items():
            if option.after:
                assert option.after in names, f"--{name} of {options_type.command} is placed after an unknown option"
                assert names.index(option.after) < names.index(name)
