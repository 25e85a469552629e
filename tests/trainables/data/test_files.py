"""The same rows come out of every format and layout; what cannot be read is named with its line."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from trainables.data import DataError
from trainables.data.files import Row, find_files, read_file, read_tables
from trainables.data.rows import passage, question, read_examples, text

ROWS: list[dict[str, Any]] = [
    {"question": "Où?", "answer": "à Łódź\n, là", "perturbed_answer": ["non", "si"]},
    {"question": "Who?", "answer": 'A "quoted", one', "perturbed_answer": ["no", "yes"]},
]


def write(path: Path, rows: list[dict[str, Any]] = ROWS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    elif path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            table = csv.DictWriter(file, list(rows[0]))
            table.writeheader()
            table.writerows(
                {column: json.dumps(cell) if isinstance(cell, list) else cell for column, cell in row.items()}
                for row in rows
            )
    else:
        path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["t.json", "t.jsonl", "t.parquet", "t.csv"])
def test_every_format_gives_the_same_rows(tmp_path: Path, name: str) -> None:
    assert [row.value for row in read_file(write(tmp_path / name))] == ROWS


def test_a_json_array_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(json.dumps(ROWS, indent=2))
    assert [row.value for row in read_file(tmp_path / "t.json")] == ROWS


def test_marks_and_line_ends_of_windows_do_no_harm(tmp_path: Path) -> None:
    for name in ("t.jsonl", "t.csv"):
        path = write(tmp_path / name, [{"question": "Q?", "answer": "A."}, {"question": "R?", "answer": "B."}])
        content = path.read_bytes().replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        path.write_bytes(b"\xef\xbb\xbf" + content + b"\r\n")
        assert [row.value for row in read_file(path)] == [
            {"question": "Q?", "answer": "A."},
            {"question": "R?", "answer": "B."},
        ]


@pytest.mark.parametrize(
    "layout",
    [
        *("a/b.json", "a/b.csv", "a-b.jsonl", "a/b-00000-of-00001.parquet", "a-b-00000-of-00001.parquet"),
        *("a/b/train-00000-of-00001.parquet", "a/b/train/0000.parquet"),
    ],
)
def test_a_table_is_found_in_the_layouts_of_the_hub(tmp_path: Path, layout: str) -> None:
    path = write(tmp_path / layout)
    write(tmp_path / "a/b_icl.json")
    write(tmp_path / "a/b_icl-00000-of-00001.parquet")
    assert find_files(tmp_path, "a/b") == (path,)


def test_a_table_in_parts_is_read_in_order(tmp_path: Path) -> None:
    for number, row in enumerate(ROWS):
        write(tmp_path / f"b-0000{number}-of-00002.parquet", [row])
    rows = read_tables(tmp_path, ["b"], needs="b")["b"]
    assert [row.value for row in rows] == ROWS
    assert rows[1].place == f"{tmp_path}/b-00001-of-00002.parquet, row 1"


def test_all_that_cannot_be_read_is_named_at_once(tmp_path: Path) -> None:
    write(tmp_path / "good.json")
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 and no more")
    (tmp_path / "empty.jsonl").write_text("\n\n")
    (tmp_path / "array.json").write_text('[{"question": "Q?"},\n{"question": }]')
    write(tmp_path / "bad.json", [ROWS[0], {"question": "Q?"}])
    names = ["good", "torn", "absent", "empty", "array", "bad"]
    with pytest.raises(DataError) as refusal:
        read_examples(read_tables(tmp_path, names, needs="six files"), dict.fromkeys(names, question))
    torn, absent, empty, array, bad = refusal.value.problems
    assert f"{tmp_path}/torn.parquet: not a parquet file" in torn
    assert absent == (
        f"cannot read {tmp_path}/absent.json: no such file (nor .jsonl, .parquet, .csv); --data-dir needs six files"
    )
    assert empty == f"{tmp_path}/empty.jsonl: no rows; the file is empty"
    assert f"{tmp_path}/array.json, line 2: not a JSON array" in array
    assert bad.startswith(f"{tmp_path}/bad.json, line 2: column 'answer'")


def test_a_folder_that_is_not_there_is_one_problem(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"--data-dir .*nowhere: no such folder; it needs a and b$") as refusal:
        read_tables(tmp_path / "nowhere", ["a", "b"], needs="a and b")
    assert len(refusal.value.problems) == 1


def test_bytes_that_are_no_utf8_are_named_with_their_line(tmp_path: Path) -> None:
    good = json.dumps(ROWS[0]).encode()
    (tmp_path / "t.jsonl").write_bytes(good + b"\n" + b'{"question": "caf\xe9", "answer": "A"}\n' + good)
    first, second, third = read_file(tmp_path / "t.jsonl")
    assert second.problem == f"cannot read {tmp_path}/t.jsonl, line 2: not UTF-8 (byte 0xe9)"
    assert (first.problem, third.problem) == ("", "")
    for name, content in {"t.json": b'[\n{"question": "\xe9"}]', "t.csv": b"question,answer\n\xe9,A\n"}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=rf"{name}, line 2: not UTF-8 \(byte 0xe9\)"):
            read_file(tmp_path / name)


def rows_of(*values: object) -> list[Row]:
    return [Row(f"f, line {number}", value) for number, value in enumerate(values, start=1)]


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (question, 3, "f, line 1: expected an object with question and answer, got 3"),
        (question, None, "f, line 1: expected an object with question and answer, got None"),
        (question, {"question": " ", "answer": "A"}, "column 'question' must be a non-empty text, got ' '"),
        (question, {"question": "Q", "answer": ["A"]}, "column 'answer' must be a non-empty text, got ['A']"),
        (question, {"question": "Q", "answer": "A", "paraphrased_answer": 1}, "'paraphrased_answer' must be a text"),
        (question, {"question": "Q", "answer": "A", "perturbed_answer": "B"}, "'perturbed_answer' must be a list"),
        (question, {"question": "Q", "answer": "A", "perturbed_answer": [""]}, "'perturbed_answer' must be a list"),
        (text, {"text": "\n"}, "column 'text' must be a non-empty text, got '\\n'"),
        (text, {"text": "a\ud800b"}, "column 'text' has half a surrogate pair, which is no character"),
        (passage, {"prompt": "P"}, "column 'gt' must be a non-empty text, got None"),
    ],
)
def test_a_row_that_is_not_what_it_should_be_is_named(kind: Any, value: object, said: str) -> None:
    with pytest.raises(DataError) as refusal:
        read_examples({"t": rows_of(value)}, {"t": kind})
    assert said in str(refusal.value)


def test_every_bad_row_is_one_problem_and_twenty_of_a_table_are_shown() -> None:
    good, bad = {"text": "right"}, {"text": 5}
    with pytest.raises(DataError) as refusal:
        read_examples({"a": rows_of(good, *[bad] * 30, good), "b": rows_of(bad)}, {"a": text, "b": text})
    problems = refusal.value.problems
    assert len(problems) == 22
    assert [problem.split(":")[0] for problem in problems[:20]] == [f"f, line {number}" for number in range(2, 22)]
    assert problems[20] == "a: and 10 more rows with problems"
    assert str(refusal.value) == "\n".join(problems)
