"""A folder of a user's own files is an unlearning problem; every mistake is named with its file and line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.facts import assert_names
from trainables.data import DataError, load_data
from trainables.data.examples import Example, UnlearningData
from trainables.data.jsonl import load_jsonl

Row = dict[str, Any]
Write = Callable[..., Path]


def asked(number: int, **more: Any) -> Row:
    return {"question": f"Question {number}?", "answer": f"Answer {number}.", **more}


def said(number: int) -> Row:
    return {"text": f"This is text {number}."}


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes files into a new folder: ``write(forget=[...], retain=[...])``."""

    def write(**files: list[Row]) -> Path:
        folder = tmp_path / "own"
        folder.mkdir()
        for name, rows in files.items():
            (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        return folder

    return write


def problems(folder: Path) -> list[str]:
    """Return the problems of a folder; each problem starts with the file and the line."""
    with pytest.raises(DataError) as refusal:
        load_jsonl(data_dir=folder)
    return [problem.replace(f"{folder}/", "") for problem in refusal.value.problems]


def test_questions_are_read_in_order_from_any_folder_and_other_columns_are_ignored(
    write: Write, tmp_path: Path
) -> None:
    folder = write(forget=[asked(1, id=7, source="x"), asked(2)], retain=[asked(n) for n in range(3, 6)])
    data = load_data("jsonl", data_dir=folder)
    questions = tuple(Example(f"Question {n}?", f"Answer {n}.") for n in range(1, 6))
    forget, retain = questions[:2], questions[2:]
    assert data == UnlearningData("jsonl", forget, retain, (*retain, *forget), forget, retain)
    folder.rename(tmp_path / "moved")
    assert load_jsonl(data_dir=tmp_path / "moved").content_hash == data.content_hash


def test_plain_texts_are_read(write: Write) -> None:
    data = load_jsonl(data_dir=write(forget=[said(1)], retain=[said(2), said(3)], holdout=[said(4)]))
    texts = [Example("", f"This is text {n}.") for n in (2, 3, 1, 4)]
    assert [*data.full, *data.holdout] == texts
    assert all(example.is_text for example in texts)


def test_files_of_evaluation_sets_are_read(write: Write) -> None:
    wrong = {"paraphrased_answer": "Said otherwise.", "perturbed_answer": ["Wrong.", "Not so."]}
    learned = {"forget": [asked(1), asked(2), asked(2)], "retain": [asked(3), asked(4)], "holdout": [asked(5)]}
    data = load_jsonl(data_dir=write(**learned, forget_eval=[asked(1, **wrong)], retain_eval=[asked(4, **wrong)]))
    assert len(data.forget) == 3, "a row may occur twice in a file"
    assert data.forget_eval == (Example("Question 1?", "Answer 1.", "Said otherwise.", ("Wrong.", "Not so.")),)
    assert [example.question for example in data.retain_eval] == ["Question 4?"]


def test_questions_in_other_words_come_from_their_own_file_or_from_a_column(write: Write) -> None:
    other_words = {"paraphrased_question": "In other words?"}
    rows: dict[str, list[Row]] = {
        "forget": [asked(1, **other_words), asked(2)],
        "retain": [asked(3), asked(4, **other_words)],
    }
    folder = write(**rows)
    assert load_jsonl(data_dir=folder).extra_eval == {
        "forget_rephrased": (Example("In other words?", "Answer 1."),),
        "retain_rephrased": (Example("In other words?", "Answer 4."),),
    }
    own = {"question": "Otherwise?", "answer": "Answer 3."}
    (folder / "retain_rephrased.jsonl").write_text(json.dumps(own))
    (folder / "neighbours.jsonl").write_text(json.dumps(asked(9)))
    data = load_jsonl(data_dir=folder, limit=1)
    assert data.extra_eval["retain_rephrased"] == (Example("Otherwise?", "Answer 3."),)
    assert data.extra_eval["neighbours"] == (Example("Question 9?", "Answer 9."),)
    (folder / "retain_rephrased.jsonl").write_text(json.dumps({**own, "answer": "Answer 4."}))
    data = load_jsonl(data_dir=folder, limit=1)
    assert "retain_rephrased" not in data.extra_eval, "the row in other words is dropped with its row"


def test_equal_questions_have_their_own_other_words(write: Write) -> None:
    rows = [asked(1, paraphrased_question=words) for words in ("First?", "Second?")]
    data = load_jsonl(data_dir=write(forget=[rows[0], asked(1), rows[1]], retain=[asked(2)]))
    assert [item.question for item in data.extra_eval["forget_rephrased"]] == ["First?", "Second?"]


@pytest.mark.parametrize(("rows", "sampled"), [(100, 100), (101, 51)])
def test_the_retain_sample_is_every_nth_row_and_at_most_a_hundred(write: Write, rows: int, sampled: int) -> None:
    data = load_jsonl(data_dir=write(forget=[asked(-1)], retain=[asked(n) for n in range(rows)]))
    numbers = [int(example.answer[7:-1]) for example in data.retain_eval]
    assert numbers == list(range(0, rows, numbers[1]))
    assert len(numbers) == sampled


def test_a_limit_counts_examples_and_drops_them_from_the_evaluation(write: Write) -> None:
    folder = write(
        forget=[asked(1)], retain=[asked(n) for n in range(2, 12)], retain_eval=[asked(3), asked(11), asked(99)]
    )
    data = load_jsonl(data_dir=folder, limit=4)
    assert [example.answer for example in data.full] == [f"Answer {n}." for n in (2, 3, 4, 5, 1)]
    assert [example.answer for example in data.retain_eval] == ["Answer 3.", "Answer 99."]


def test_a_limit_that_drops_the_whole_evaluation_is_refused(write: Write) -> None:
    retain = [asked(n) for n in range(2, 12)]
    folder = write(forget=[asked(1)], retain=retain, retain_eval=[asked(11), asked(9)])
    with pytest.raises(DataError, match=r"--limit 4 .* 2 rows of retain_eval, .* at least 8"):
        load_jsonl(data_dir=folder, limit=4)
    assert [example.answer for example in load_jsonl(data_dir=folder, limit=8).retain_eval] == ["Answer 9."]


@pytest.mark.parametrize(
    ("forget", "retain", "facts"),
    [
        (
            [asked(1), said(2)],
            [said(3), asked(4)],
            [("the files have", "2 questions", "forget.jsonl, line 1 and retain.jsonl, line 2", "2 texts")],
        ),
        ([{"txt": "?"}, said(1)], [said(2)], [("forget.jsonl, line 1:", "text", "txt")]),
        ([asked(1) | said(1)], [asked(2)], [("forget.jsonl, line 1:", "either")]),
    ],
    ids=["within and between files", "a first row of no kind", "a row of both kinds"],
)
def test_questions_and_texts_are_not_mixed(
    write: Write, forget: list[Row], retain: list[Row], facts: list[tuple[str, ...]]
) -> None:
    for problem, (place, *named) in zip(problems(write(forget=forget, retain=retain)), facts, strict=True):
        assert problem.startswith(place)
        assert_names(problem, *named)


def test_rows_of_holdout_that_are_trained_are_counted_with_two_examples(write: Write) -> None:
    trained = [asked(number) for number in range(30)]
    (problem,) = problems(write(forget=trained[:1], retain=trained[1:], holdout=[asked(40), *trained]))
    assert_names(problem, "30 rows of holdout", "holdout.jsonl, line 2 is the same as forget.jsonl, line 1")
    assert_names(problem, "holdout.jsonl, line 3 is the same as retain.jsonl, line 1")
    assert "line 4" not in problem


@pytest.mark.parametrize(
    ("name", "side", "other"),
    [("retain_eval", "retain", "forget"), ("neighbours", "retain", "forget"), ("forget_eval", "forget", "retain")],
)
def test_rows_for_evaluation_are_not_those_of_the_other_side(write: Write, name: str, side: str, other: str) -> None:
    (problem,) = problems(write(**{side: [asked(1)], other: [asked(2)], name: [asked(1), asked(2)]}))
    assert_names(problem, f"1 row of {name} is in {other} instead of {side}", f"{name}.jsonl, line 2 is the same as")


def test_rows_for_evaluation_may_be_on_both_sides_or_on_none(write: Write) -> None:
    """Rows on both sides are noted, and questions in other words are on none."""
    forget, retain, evaluated = [asked(1), asked(2)], [asked(2), asked(3)], [asked(2), asked(4)]
    data = load_jsonl(data_dir=write(forget=forget, retain=retain, forget_eval=evaluated, retain_eval=evaluated))
    assert len(data.forget_eval) == len(data.retain_eval) == 2


def test_equal_rows_of_forget_and_retain_are_loaded(write: Write) -> None:
    """A note names them before any work (tests/trainables/target/test_notes.py)."""
    data = load_jsonl(data_dir=write(forget=[asked(1), asked(1), asked(2)], retain=[asked(3), asked(2)]))
    assert [len(data.forget), len(data.retain), len(data.full)] == [3, 2, 5]


def test_a_compressed_optional_file_is_not_ignored(write: Write) -> None:
    folder = write(forget=[asked(1)], retain=[asked(2)])
    (folder / "holdout.jsonl.gz").write_bytes(b"")
    (problem,) = problems(folder)
    assert_names(problem, "holdout.json", "found holdout.jsonl.gz")


def test_the_retain_losses_are_of_items_spread_evenly_over_the_sample(write: Write) -> None:
    whole = load_jsonl(data_dir=write(forget=[asked(-1)], retain=[asked(n) for n in range(100)]))
    assert whole.retain_loss_set is whole.with_loss_examples(100).retain_loss_set is whole.retain_eval
    some = whole.with_loss_examples(8)
    assert [item.answer for item in some.retain_loss_set] == [f"Answer {n}." for n in (0, 12, 25, 37, 50, 62, 75, 87)]
    assert some.content_hash != whole.content_hash
