"""The user's own question sets are read, named, hashed and measured like the other sets."""

from __future__ import annotations

from pathlib import Path

import pytest
from transformers import PhiForCausalLM

from tests.conftest import json_lines
from tests.trainables.scoring.conftest import MakeEvaluator
from tests.trainables.scoring.conftest import make_evaluator as make_evaluator  # a fixture
from trainables import plugins
from trainables.data import DataError, load_data
from trainables.data.examples import Example, UnlearningData
from trainables.plugins import PluginError
from trainables.question_sets import metrics_of, name_problem, question_sets
from trainables.spec import TrialSpec
from trainables.target.target import target_spec_of

ROWS = [
    {"question": "Where does Ada live?", "answer": "Oslo"},
    {"question": "What does Gus eat?", "answer": "Gus eats cake"},
]


def write(path: Path, rows: list[dict[str, str]]) -> Path:
    path.write_text(json_lines(rows))
    return path


def test_a_file_becomes_a_set_and_two_metrics(tmp_path: Path) -> None:
    file = write(tmp_path / "mine.jsonl", ROWS)
    plugin = plugins.read_questions("towns", file, user_path=str(file))
    assert [(part.kind, part.name) for part in plugin.parts] == [
        ("question set", "towns"),
        ("metric", "towns_fact_recall"),
        ("metric", "towns_recall"),
    ]
    assert plugin.parts[0].entry == tuple(Example(row["question"], row["answer"]) for row in ROWS)
    copy = tmp_path / plugin.name
    copy.write_text(plugin.source)
    assert plugins.read(copy, user_path=str(file)).parts[0].entry == plugin.parts[0].entry


def test_the_rows_have_the_errors_of_other_data(tmp_path: Path) -> None:
    file = write(tmp_path / "mine.jsonl", [*ROWS, {"question": "Who?", "answer": ""}])
    with pytest.raises(PluginError) as caught:
        plugins.read_questions("towns", file, user_path=str(file))
    assert caught.value.problems == (f"{file}, line 3: column 'answer' must be a non-empty text, got ''",)


@pytest.mark.parametrize(("name", "problem"), [("Towns", "lower-case"), ("a=b", "lower-case"), ("retain", "choose")])
def test_names_that_cannot_begin_a_column_are_refused(name: str, problem: str) -> None:
    assert problem in (name_problem(name) or "")
    assert name_problem("towns_2") is None


def test_the_recalls_are_those_of_the_answers(
    make_evaluator: MakeEvaluator, known_network: PhiForCausalLM, tiny_data: UnlearningData
) -> None:
    """The network answers in whole sentences. A short true answer does not cut them."""
    examples = tuple(
        Example(row["question"], row["answer"]) for row in [*ROWS, ROWS[0] | {"answer": "Ada lives in Rome"}]
    )
    evaluator = make_evaluator(tiny_data.with_sets(towns=examples))
    scores = evaluator.scores(known_network)
    facts, words = metrics_of("towns")
    assert scores.generated["towns"][0] == ["Ada lives in Oslo", "Gus eats cake with cream", "Ada lives in Oslo"]
    assert words.measure(scores) == pytest.approx((1 + 1 + 3 / 4) / 3)
    assert facts.measure(scores) == pytest.approx((1 + 1 + 0) / 3)
    log = scores.items()["questions/towns"]
    assert list(log["rougeL_recall"].values()) == [1.0, 1.0, 0.75]  # type: ignore[attr-defined]


def test_lower_is_better_on_a_set_that_is_to_be_forgotten() -> None:
    assert [(item.direction, item.of) for item in metrics_of("forget_more")] == [("min", "forget")] * 2
    assert [(item.direction, item.of) for item in metrics_of("towns")] == [("max", "retain")] * 2


def test_the_content_and_not_the_path_is_a_part_of_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def content_hash(path: Path, rows: list[dict[str, str]]) -> str:
        read = plugins.read_questions("towns", write(path, rows), user_path=str(path))
        monkeypatch.setattr(plugins, "_active", [read])
        spec = target_spec_of(TrialSpec(limit=20))
        assert spec.trained_key == target.trained_key  # the same model is the target
        return spec.data.content_hash

    target = target_spec_of(TrialSpec(limit=20))
    first = content_hash(tmp_path / "a.jsonl", ROWS)
    assert list(question_sets()) == ["towns"]
    assert content_hash(tmp_path / "b.jsonl", ROWS) == first
    assert len({first, content_hash(tmp_path / "b.jsonl", ROWS[:1]), target.data.content_hash}) == 3


def test_image_classifiers_have_no_question_sets() -> None:
    with pytest.raises(DataError, match="--questions towns: image classifiers"):
        load_data("digits").with_sets(towns=())
