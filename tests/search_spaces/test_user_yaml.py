"""Spaces from YAML: the meaning of a file, and every mistake named with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from search_spaces.common.fields import Field
from search_spaces.parameters import Choice, Number
from search_spaces.space import Space
from search_spaces.user_yaml import load_space
from tests.facts import assert_names


def described(name: str, kind: type = float, **more: Any) -> Field:
    return Field(name, None, "a setting", kind=kind, **more)


PLAIN = (
    *(described("method", str), described("lr"), described("c"), described("epochs", int), described("lora", bool)),
    *(described("batch_size", int, low=1), described("lora_rank", int, optional=True), described("template", str)),
    described("auto_lr", str, choices=("off", "gen"), words={"on": "gen"}),
    described("interpolate", str, choices=("off", "on")),
)
FIELDS = {item.name: item for item in PLAIN} | {"npo.beta": described("beta", low=0.0, high=100.0)}


@pytest.fixture(autouse=True)
def _workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def load(text: str) -> tuple[Space, list[str]]:
    Path("s.yaml").write_text(text)
    return load_space(Path("s.yaml"), FIELDS)


def test_a_file_is_read_as_its_author_means_it(tmp_path: Path) -> None:
    path = tmp_path / "space.yaml"
    path.write_text(
        """
method: [gdiff, npo+ngdiff]
lr: {low: 1.0e-5, high: 1e-3, log: true}
c: {values: [0.1, 0.5, 0.9], when: {method: gdiff}}
npo.beta: {low: 0, high: 0.99, log_to_one: on, when: {method: [npo, npo+ngdiff]}}
auto_lr: [off, gen]     # YAML 1.1 reads off as a boolean
batch_size: {low: 4, high: 16, grid: [4, 16], when: {auto_lr: off}}
epochs: 10
""",
        encoding="utf-8-sig",  # as editors on Windows write it
    )
    space, problems = load_space(path, FIELDS)
    assert problems == []
    assert space == Space(
        (
            Choice("method", ("gdiff", "npo+ngdiff")),
            Number("lr", 1e-5, 1e-3, log=True),
            Choice("c", (0.1, 0.5, 0.9), when={"method": ("gdiff",)}),
            Number("beta", 0.0, 0.99, log_to_one=True, when={"method": ("npo", "npo+ngdiff")}, key="npo.beta"),
            Choice("auto_lr", ("off", "gen")),
            Number("batch_size", 4, 16, grid=(4, 16), integer=True, when={"auto_lr": ("off",)}),
        ),
        {"epochs": 10},
    )


@pytest.mark.parametrize(
    ("text", "name", "values"),
    [
        ("lr: [1e-5, 1.0e-4, .001, 1E-2, 1]", "lr", (1e-5, 1e-4, 1e-3, 1e-2, 1.0)),
        ("auto_lr: [off, Off, false, 'off', on, ON, true, \"on\", gen]", "auto_lr", ("off",) * 4 + ("gen",) * 5),
        ("interpolate: [off, on]", "interpolate", ("off", "on")),
        ("lora: [on, false]", "lora", (True, False)),
        ("lora_rank: [null, 8, ~]", "lora_rank", (None, 8, None)),
        ("epochs: [010, 1e1, 5.0]", "epochs", (10, 10, 5)),
        ("template: ['5', \"null\", no, 1:30]", "template", ("5", "null", "no", "1:30")),
    ],
)
def test_scalars_mean_what_they_look_like(text: str, name: str, values: tuple[object, ...]) -> None:
    items = text.partition("[")[2].rstrip("]").split(",")
    read_values = [load(f"{name}: {item.strip()}")[0].constants[name] for item in items]
    assert [(value, type(value)) for value in read_values] == [(value, type(value)) for value in values]


@pytest.mark.parametrize(
    ("text", "line", "facts"),
    [
        ("lr: 1\n---\nlr: 2\n", 2, ("YAML",)),
        ("lr: 1\nc: \x07\n", 2, ("YAML", "control character")),
        ("lr: " + "[" * 1000, 1, ("YAML", "nested")),
        ("lr: 1\nlrr: 2", 2, ("'lrr'", "'lr'")),
        ("[lr]: 2", 1, ("a list", "name")),
        ("lr: 1\nc: 1\nlr: 2", 3, ("lr", "twice")),
        ("lr: !!binary aGk=", 1, ("YAML", "binary")),
        ("lr: '1e-5'", 1, ("lr", "a number", "'1e-5'")),
        ("lr: {low: 1e-5}", 1, ("lr", "low and high", "got low")),
        ("lr: {low: [1, 2], high: 3}", 1, ("lr", "one number for low")),
        ("c: 1\nlr:\n- 0.1\n- [0.2]", 2, ("lr", "a number", "[0.2]")),
        ("auto_lr: sometimes", 1, ("auto_lr", "'sometimes'", "off, gen")),
        ("lr:\n  low: 0.1\n  high: 1\n  low: 0.2", 4, ("low", "twice")),
        ("lr: {low: 0.1, high: 1, log: maybe}", 1, ("lr", "log", "true or false")),
        ("lr: {low: 0.1, high: 1, values: [1]}", 1, ("lr", "either values, or low", "got low, high, values")),
        ("epochs: {low: 1, high: 3, log_to_one: true}", 1, ("epochs", "log_to_one", "less than 1")),
        ("method: gdiff\nc: {values: [1, 2], when: gdiff}", 2, ("c", "when", "mapping")),
        (
            "method: [npo, simnpo]\nc: {values: [1, 2], when: {method: npo, method: simnpo}}",
            2,
            ("method", "twice"),
        ),
        ("batch_size:\n- 4\n- 0", 1, ("batch_size", "at least 1", "0")),
        ("\nnpo.beta: {low: -1, high: 2}", 2, ("beta", "[0, 100]", "-1")),
    ],
)
def test_a_mistake_is_reported_with_its_line_the_setting_and_the_value(
    text: str, line: int, facts: tuple[str, ...]
) -> None:
    _, [problem] = load(text)
    assert problem.startswith(f"s.yaml:{line}: ")
    assert_names(problem, *facts)


def test_every_mistake_is_reported_at_once_in_the_order_of_the_file() -> None:
    text = """
method: [gdiff, 5]
lr: {low: -1, high: -2, log: true}
c: {values: [0.1, 0.1], when: {methd: gdiff}}
template: {low: 1, hihg: 2}
npo.beta: {low: 0.01, high: 1, when: {method: npo}}
epochs: 1.5
batch: 3
"""
    assert [problem.split(":")[1] for problem in load(text)[1]] == ["2", "3", "3", "4", "5", "7", "8"]


def test_the_rest_of_a_file_with_mistakes_is_read() -> None:
    space, _ = load("lr: fast\nepochs: [1, 2]\nc: 0.5")
    assert space == Space((Choice("epochs", (1, 2)),), {"c": 0.5})


@pytest.mark.parametrize(
    ("name", "fact"),
    [
        ("none.yaml", "No such file"),
        ("", "directory"),
        ("latin.yaml", "UTF-8"),
        ("comment.yaml", "empty"),
        ("list.yaml", "expected parameters"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, fact: str) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"lr: \xff\n")
    (tmp_path / "list.yaml").write_text("- lr\n")
    (tmp_path / "comment.yaml").write_text("# only a comment\n")
    _, [problem] = load_space(tmp_path / name, FIELDS)
    assert_names(problem, f"{tmp_path / name}:", fact)
