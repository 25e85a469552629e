"""TOFU is read as published, from files and from the hub."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.facts import assert_names
from trainables.data import DataError
from trainables.data.examples import Example
from trainables.data.files import read_file
from trainables.data.rows import question
from trainables.data.tofu import load_tofu, tofu_files

TOFU = Path(os.environ.get("TOFU_DATA_DIR", "../shared/data/tofu"))


def test_every_part_comes_from_its_file_in_order(tofu_folder: Path) -> None:
    data = load_tofu(data_dir=tofu_folder)
    assert (data.name, len(data.holdout)) == ("tofu/forget10", 20)
    assert data.forget == tuple(Example(f"Question {n}?", f"Answer {n}.") for n in range(40, 60))
    wrong = tuple(f"Wrong 40.{k}" for k in range(5))
    assert data.forget_eval[0] == Example("Question 40?", "Answer 40.", "Paraphrase 40.", wrong)
    # Without a paraphrase, the answer itself is compared.
    authors = (Example("Question 100?", "Answer 100.", "Answer 100.", ("Not", "So", "Right")),)
    assert data.extra_eval["real_authors"] == authors


def test_questions_in_other_words_have_the_answers_of_the_evaluated_questions(tofu_folder: Path) -> None:
    path = tofu_folder / "retain_perturbed.json"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows[1:]:
        row["paraphrased_question"] = f"Other {row['question']}"
    path.write_text("\n".join(map(json.dumps, rows)))
    data = load_tofu(data_dir=tofu_folder, limit=20)
    evaluated = [(f"Other {item.question}", item.answer) for item in data.retain_eval[1:]]
    assert [(item.question, item.answer) for item in data.extra_eval["retain_rephrased"]] == evaluated
    assert "forget_rephrased" not in data.extra_eval


def test_a_question_in_other_words_that_is_no_text_is_refused_with_its_place(tofu_folder: Path) -> None:
    path = tofu_folder / "forget10_perturbed.json"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[1]["paraphrased_question"] = 7
    path.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(DataError) as refusal:
        load_tofu(data_dir=tofu_folder)
    assert_names(refusal.value, "forget10_perturbed.json, line 2", "paraphrased_question", "7")


@pytest.mark.parametrize(("limit", "kept"), [(20, 20), (39, 20), (40, 40), (None, 40)])
def test_a_limit_keeps_whole_authors_and_the_sample_of_them(tofu_folder: Path, limit: int | None, kept: int) -> None:
    data = load_tofu(data_dir=tofu_folder, limit=limit)
    assert [example.answer for example in data.retain] == [f"Answer {number}." for number in range(kept)]
    assert [example.question for example in data.retain_eval] == [f"Question {n}?" for n in range(0, kept, 4)]


def test_an_unreachable_hub_is_named_with_the_alternatives(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*arguments: Any, **named: Any) -> Any:
        raise ConnectionError("no route to host\nmore")

    monkeypatch.setattr("datasets.load_dataset", unreachable)
    with pytest.raises(DataError) as refusal:
        load_tofu(forget_split="forget01")
    assert_names(refusal.value, "locuslab/TOFU", "forget01", "no route to host", "--data-dir", "--dataset authors")
    assert "more" not in str(refusal.value)


@pytest.mark.parametrize(
    ("split", "forget", "retain"), [("forget01", 40, 3960), ("forget05", 200, 3800), ("forget10", 400, 3600)]
)
def test_the_published_files_are_one_set_split_in_two(split: str, forget: int, retain: int) -> None:
    """The target's training set is the published ``full``, row by row."""
    if not all((TOFU / f"{name}.json").is_file() for name in (*tofu_files(split).values(), "full")):
        pytest.skip(f"TOFU's files are not in {TOFU} (set TOFU_DATA_DIR)")
    data = load_tofu(forget_split=split, data_dir=TOFU)
    assert (len(data.forget), len(data.retain), len(data.retain_eval)) == (forget, retain, 400)
    assert data.full == tuple(map(question, read_file(TOFU / "full.json")))
    assert [example.question for example in data.forget_eval] == [example.question for example in data.forget]
    sizes = {name: len(examples) for name, examples in data.extra_eval.items()}
    assert sizes == {"real_authors": 100, "world_facts": 117, "forget_rephrased": forget, "retain_rephrased": 400}
    assert {len(example.perturbed_answers) for example in (*data.forget_eval, *data.retain_eval)} == {5}
