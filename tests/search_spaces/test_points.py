"""A point that a sweep tries first is parsed, placed in the space, and returned unchanged by the sampler."""

from __future__ import annotations

from pathlib import Path

import optuna
import pytest

from search_spaces.common.values import Value
from search_spaces.points import PointError, params_of_point, read_points
from tests.facts import assert_names
from tests.search_spaces.conftest import CONDITIONAL


def test_a_text_is_one_point_and_a_file_in_yaml_or_json_is_a_list_of_points(tmp_path: Path) -> None:
    assert read_points("lr=1e-3, method = npo , auto_lr=off,epochs=3,lora_rank=null") == [
        {"lr": 1e-3, "method": "npo", "auto_lr": "off", "epochs": 3, "lora_rank": None}
    ]
    (tmp_path / "points.yaml").write_text("- {lr: 1e-3, method: gdiff}\n- lr: 1e-4\n")
    (tmp_path / "points.json").write_text('[{"lr": 1e-3, "method": "gdiff"}, {"lr": 1e-4}]')
    for name in ("points.yaml", "points.json"):
        assert read_points(str(tmp_path / name)) == [{"lr": 1e-3, "method": "gdiff"}, {"lr": 1e-4}]


@pytest.mark.parametrize(
    ("text", "content", "facts"),
    [
        ("points.yaml", "[]", "points.yaml: .*list of points"),
        ("points.yaml", "- lr: 1\n- 3\n", "points.yaml:2: .*names"),
        ("points.yaml", "- lr: [1, 2]\n", "points.yaml:1: .*names"),
        ("points.yaml", "- {lr: 1", "points.yaml:1: .*YAML"),
        ("points.yaml", "\udcff", "points.yaml: .*UTF-8"),
        ("nothing", "", "nothing: .*No such file.*NAME=VALUE"),
        ("n" * 300, "", "too long"),
        (".", "", "directory"),
        ("lr=1,lr=2", "", "lr.*twice"),
    ],
)
def test_other_text_is_refused_and_a_file_at_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, content: str, facts: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("points.yaml").write_text(content, errors="surrogateescape")
    with pytest.raises(PointError, match=facts):
        read_points(text)


@pytest.mark.parametrize(
    ("point", "expected"),
    [
        # c is gdiff's alone, and Optuna knows 1 - c.
        ({"c": 0.9}, {"method": "gdiff", "1-gdiff.c": 0.1}),
        ({"beta": 5}, {"method": "simnpo", "simnpo.beta": 5.0}),
        ({"beta": 0.7, "method": "npo"}, {"method": "npo", "npo.beta": 0.7}),
        ({"auto_lr_every": 3, "method": "ngdiff"}, {"method": "ngdiff", "auto_lr": "on", "auto_lr_every": 3}),
        ({"epochs": 15}, {}),
    ],
)
def test_a_point_fixes_its_values_and_the_implied_ones(point: dict[str, Value], expected: dict[str, Value]) -> None:
    params = params_of_point(CONDITIONAL, point)
    assert params == expected
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for _ in range(5):
        study.enqueue_trial(params)
        config = CONDITIONAL.suggest(study.ask())
        assert {name: config[name] for name in point} == point


@pytest.mark.parametrize(
    ("point", "facts"),
    [
        ({"c": 0.9, "method": "npo"}, ("c", "method gdiff")),
        ({"beta": 0.7}, ("beta", "method npo or method simnpo")),
        ({"auto_lr_every": 3}, ("auto_lr_every", "auto_lr on and method gdiff/ngdiff")),
        ({"epochs": 3}, ("epochs", "15", "3")),
    ],
)
def test_a_point_outside_the_space_is_refused_with_the_possible_values(
    point: dict[str, Value], facts: tuple[str, ...]
) -> None:
    with pytest.raises(PointError) as caught:
        params_of_point(CONDITIONAL, point)
    assert_names(caught.value, *facts)
