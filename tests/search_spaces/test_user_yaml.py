"""Spaces from YAML: what a file means, and every mistake named with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from search_spaces.fields import Field
from search_spaces.parameters import Choice, Number
from search_spaces.space import Space
from search_spaces.user_yaml import load_space, parse_space


def described(name: str, kind: type = float, **more: Any) -> Field:
    return Field(name, None, "a setting", kind=kind, **more)


FIELDS = {
    "method": described("method", str),
    "lr": described("lr"),
    "c": described("c"),
    "npo.beta": described("beta", low=0.0, high=100.0),
    "simnpo.beta": described("beta"),
    "auto_lr": described("auto_lr", str, choices=("on", "off")),
    "epochs": described("epochs", int),
    "batch_size": described("batch_size", int, low=1),
    "lora_rank": described("lora_rank", int, optional=True),
    "lora": described("lora", bool),
    "template": described("template", str),
    "model": described("model", str, fixed="all trials share one", flag="--model"),
    "target_key": described("target_key", str, fixed="all trials share one"),
}


def read(text: str) -> Space:
    file = parse_space(text, "s.yaml", FIELDS)
    assert file.problems == ()
    return file.space


def problems(text: str) -> list[str]:
    return list(parse_space(text, "s.yaml", FIELDS).problems)


def test_a_file_is_read_as_its_author_means_it(tmp_path: Path) -> None:
    path = tmp_path / "space.yaml"
    path.write_text(
        """
method: [gdiff, npo+ngdiff]
lr: {low: 1.0e-5, high: 1e-3, log: true}
c: {values: [0.1, 0.5, 0.9], when: {method: gdiff}}
npo.beta: {low: 0.01, high: 1, log: on, when: {method: [npo, npo+ngdiff]}}
auto_lr: [off, on]      # YAML 1.1 reads these as booleans
epochs: 10
""",
        encoding="utf-8",
    )
    assert load_space(path, FIELDS).space == Space(
        (
            Choice("method", ("gdiff", "npo+ngdiff")),
            Number("lr", 1e-5, 1e-3, log=True),
            Choice("c", (0.1, 0.5, 0.9), when={"method": ("gdiff",)}),
            Number("beta", 0.01, 1.0, log=True, when={"method": ("npo", "npo+ngdiff")}, key="npo.beta"),
            Choice("auto_lr", ("off", "on")),
        ),
        {"epochs": 10},
    )


@pytest.mark.parametrize(
    ("text", "name", "values"),
    [
        ("lr: [1e-5, 1.0e-4, .001, 1E-2, 1]", "lr", (1e-5, 1e-4, 1e-3, 1e-2, 1.0)),
        ("auto_lr: [off, on]", "auto_lr", ("off", "on")),
        ("auto_lr: [Off, ON]", "auto_lr", ("off", "on")),
        ("auto_lr: [false, true]", "auto_lr", ("off", "on")),
        ("auto_lr: ['off', \"on\"]", "auto_lr", ("off", "on")),
        ("lora: [on, false]", "lora", (True, False)),
        ("lora_rank: [null, 8, ~]", "lora_rank", (None, 8, None)),
        ("epochs: [010, 1e1, 5.0]", "epochs", (10, 10, 5)),
        ("template: ['5', \"null\", no, 1:30]", "template", ("5", "null", "no", "1:30")),
    ],
    ids=["numbers", "off and on", "capitals", "booleans", "quoted", "true booleans", "null", "whole", "texts"],
)
def test_scalars_mean_what_they_look_like(text: str, name: str, values: tuple[object, ...]) -> None:
    [line] = text.splitlines()
    read_values = []
    for item in line.partition("[")[2].rstrip("]").split(","):
        read_values.append(read(f"{name}: {item.strip()}").constants[name])
    assert [(value, type(value)) for value in read_values] == [(value, type(value)) for value in values]


def test_a_range_of_a_whole_number_is_a_range_of_whole_numbers() -> None:
    space = read("epochs: {low: 5, high: 15, grid: [5, 15]}\nlr: {low: 0, high: 1, grid: [0, 1]}")
    assert space.parameters == (
        Number("epochs", 5, 15, grid=(5, 15), whole=True),
        Number("lr", 0.0, 1.0, grid=(0.0, 1.0)),
    )
    assert [type(point) for point in space.parameters[1].points() or ()] == [float, float]


def test_a_share_can_be_searched_finely_near_one() -> None:
    space = read("c: {low: 0.1, high: 0.99, log_to_one: true}")
    assert space.parameters == (Number("c", 0.1, 0.99, log_to_one=True),)


def test_options_of_equal_name_go_by_their_keys() -> None:
    space = read(
        "method: [npo, simnpo]\nnpo.beta: {values: [0.1], when: {method: npo}}\n"
        "simnpo.beta: {low: 2.5, high: 5.5, when: {method: simnpo}}"
    )
    assert space.params_of({"method": "npo", "beta": 0.1})
    assert space.params_of({"method": "simnpo", "beta": 4.5})
    with pytest.raises(ValueError, match="not of the search space"):
        space.params_of({"method": "simnpo", "beta": 0.1})


def test_conditions_read_off_and_on_like_values_do() -> None:
    space = read("auto_lr: [off, on]\nlr: {values: [0.1, 0.2], when: {auto_lr: off}}")
    assert space.grid() == [{"auto_lr": "off", "lr": 0.1}, {"auto_lr": "off", "lr": 0.2}, {"auto_lr": "on"}]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "s.yaml: the file is empty; expected parameters"),
        ("# only a comment\n", "s.yaml: the file is empty; expected parameters"),
        ("- lr\n", "s.yaml:1: expected a mapping of parameters, such as lr: [1e-5, 1e-4], got a list"),
        ("\nlr\n", "s.yaml:2: expected a mapping of parameters, such as lr: [1e-5, 1e-4], got 'lr'"),
        ("lr: 1\nc: [0.1\nepochs: 3\n", "s.yaml:3: not valid YAML"),
        ("lr: 1\n\tc: 2\n", "s.yaml:2: not valid YAML"),
        ("lr: 1\n---\nlr: 2\n", "s.yaml:2: not valid YAML"),
        ("lr: 1\nc: \x07\n", "s.yaml:2: not valid YAML: a control character is not allowed"),
        ("lr: " + "[" * 5000, "s.yaml:1: not valid YAML: nested too deeply"),
        ("lr: 1\nlrr: 2", "s.yaml:2: unknown parameter 'lrr': did you mean 'lr'?"),
        (
            "zzz: 2",
            "s.yaml:1: unknown parameter 'zzz': expected one of auto_lr, batch_size, c, epochs, lora, lora_rank, lr,",
        ),
        ("[lr]: 2", "s.yaml:1: expected the name of a parameter, got a list"),
        ("lr: 1\nc: 1\nlr: 2", "s.yaml:3: lr: is there already, in line 1"),
        ("lr: fast", "s.yaml:1: lr must be a number, got 'fast'"),
        ("lr: '1e-5'", "s.yaml:1: lr must be a number, got '1e-5'"),
        ("lr: true", "s.yaml:1: lr must be a number, got True"),
        ("lr: .inf", "s.yaml:1: lr must be a number, got '.inf'"),
        ("lr: 1e999", "s.yaml:1: lr must be a finite number, got inf"),
        ("lr:", "s.yaml:1: lr must be a number, got null"),
        ("lr: !!binary aGk=", "s.yaml:1: lr: tags such as tag:yaml.org,2002:binary are not read"),
        ("lr: []", "s.yaml:1: lr: needs at least one value"),
        ("lr: {}", "s.yaml:1: lr: needs low and high, or values; low and high missing"),
        ("lr: {values: []}", "s.yaml:1: lr: needs at least one value"),
        ("lr:\n- 0.1\n- [0.2]", "s.yaml:3: lr: expected a value, got a list"),
        ("lr:\n- 0.1\n- 0.1", "s.yaml:1: lr: the value 0.1 is there twice"),
        ("epochs: 1.5", "s.yaml:1: epochs must be a whole number, got 1.5"),
        ("epochs: {low: 1, high: 2.5}", "s.yaml:1: epochs must be a whole number, got 2.5"),
        ("lora_rank: big", "s.yaml:1: lora_rank must be a whole number or null, got 'big'"),
        ("lora: 3", "s.yaml:1: lora must be true or false, got 3"),
        ("auto_lr: sometimes", "s.yaml:1: unknown auto_lr 'sometimes': expected one of on, off"),
        ("method: 5", "s.yaml:1: method must be a text, got 5"),
        ("method: {low: 1, high: 2}", "s.yaml:1: method: takes a text; a range is between numbers"),
        ("lora_rank: {low: null, high: 8}", "s.yaml:1: lora_rank: a range is between numbers, got null"),
        ("lr: {low: 1e-5}", "s.yaml:1: lr: needs low and high, or values; high missing"),
        (
            "lr:\n  low: 0.1\n  high: 1\n  lgo: true",
            "s.yaml:4: lr: unknown key 'lgo': did you mean 'log'?",
        ),
        ("lr:\n  low: 0.1\n  high: 1\n  low: 0.2", "s.yaml:4: lr: low is there twice"),
        ("lr: {low: 0.1, high: 1, log: maybe}", "s.yaml:1: lr: log must be true or false, got 'maybe'"),
        ("lr: {low: 1, high: 0.1}", "s.yaml:1: lr: low must be less than high, got 1 and 0.1"),
        ("lr: {low: 0, high: 1, log: true}", "s.yaml:1: lr: a logarithmic range must have low greater than 0, got 0"),
        ("lr: {low: 0.1, high: 1, grid: [2]}", "s.yaml:1: lr: grid points must lie in [0.1, 1], got 2.0"),
        (
            "lr: {low: 0.1, high: 1, values: [1]}",
            "s.yaml:1: lr: give either values or a range, not both values and low",
        ),
        ("c: {low: 0.1, high: 1, log_to_one: true}", "s.yaml:1: c: a range with log_to_one must have high less than 1"),
        ("epochs: {low: 1, high: 3, log_to_one: true}", "s.yaml:1: epochs: log_to_one is for shares between 0 and 1"),
        ("method: gdiff\nc: {values: [1, 2], when: gdiff}", "s.yaml:2: c: when needs a mapping such as"),
        (
            "c: {values: [1, 2], when: {methd: x}}",
            "s.yaml:1: c: its condition is on methd, which is not in the space",
        ),
        (
            "c: {values: [1, 2], when: {method: gdiff}}\nmethod: [gdiff, npo]",
            "s.yaml:1: c: its condition is on method, which must come before it",
        ),
        (
            "method: [gdiff, npo]\nc: {values: [1, 2], when: {method: gdif}}",
            "s.yaml:2: c: never applies: it waits for method to be 'gdif', which method never is",
        ),
        (
            "lr: {low: 1, high: 2}\nc: {values: [1, 2], when: {lr: 1}}",
            "s.yaml:2: c: its condition is on lr, which is continuous",
        ),
        (
            "method: [npo, simnpo]\nc: {values: [1, 2], when: {method: npo, method: simnpo}}",
            "s.yaml:2: c: method is there twice in its condition",
        ),
        (
            "npo.beta: 0.1\nsimnpo.beta: 4.5",
            "s.yaml:2: simnpo.beta: npo.beta and simnpo.beta both set 'beta' and can apply together",
        ),
    ],
)
def test_a_mistake_is_named_with_its_line_and_what_was_expected(text: str, said: str) -> None:
    [problem] = problems(text)
    assert problem.startswith(said)


def test_every_mistake_is_named_at_once_in_the_order_of_the_file() -> None:
    text = """
method: [gdiff, 5]
lr: {low: 1, high: 0.1, log: true, lgo: 3}
c: {values: [0.1, 0.1], when: {methd: gdiff}}
c: 0.4
npo.beta: {low: 0.01, high: 1, when: {method: npo}}
epochs: 1.5
batch: 3
"""
    assert problems(text) == [
        "s.yaml:2: method must be a text, got 5",
        "s.yaml:3: lr: unknown key 'lgo': did you mean 'log'?",
        "s.yaml:3: lr: low must be less than high, got 1 and 0.1",
        "s.yaml:4: c: the value 0.1 is there twice",
        "s.yaml:4: c: its condition is on methd, which is not in the space",
        "s.yaml:5: c: is there already, in line 4",
        "s.yaml:7: epochs must be a whole number, got 1.5",
        "s.yaml:8: unknown parameter 'batch': did you mean 'batch_size'?",
    ]


def test_what_all_trials_share_is_refused_with_the_reason_and_the_option() -> None:
    assert problems("model: [a, b]\ntarget_key: x\nlr: {values: [1], when: {epochs: 3}}") == [
        "s.yaml:1: model: cannot vary within a sweep: all trials share one; give it with --model",
        "s.yaml:2: target_key: cannot vary within a sweep: all trials share one",
        "s.yaml:3: lr: its condition is on epochs, which is not in the space",
    ]


def test_a_value_out_of_bounds_is_refused_at_its_line() -> None:
    text = "batch_size:\n- 4\n- 0\nnpo.beta: {low: -1, high: 2}"
    assert problems(text) == [
        "s.yaml:3: batch_size must be at least 1, got 0",
        "s.yaml:4: beta must be in [0, 100], got -1",
    ]


def test_of_a_file_with_mistakes_the_rest_is_read() -> None:
    file = parse_space("lr: fast\nepochs: [1, 2]\nc: 0.5", "s.yaml", FIELDS)
    assert file.space == Space((Choice("epochs", (1, 2)),), {"c": 0.5})
    assert file.lines == {"lr": 1, "epochs": 2, "c": 3}
    assert file.at("c", "too small") == "s.yaml:3: too small"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"lr: \xff\n")
    expected = {
        "none.yaml": "cannot be read: No such file or directory",
        "": "cannot be read: Is a directory",
        "latin.yaml": "not a text file in UTF-8",
    }
    for name, said in expected.items():
        assert load_space(tmp_path / name, FIELDS).problems == (f"{tmp_path / name}: {said}",)


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    (tmp_path / "windows.yaml").write_bytes(b"\xef\xbb\xbflr: 1e-5\r\n")
    assert load_space(tmp_path / "windows.yaml", FIELDS).space == Space((), {"lr": 1e-5})
