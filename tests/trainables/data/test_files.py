"""Every format and layout gives the same rows; a row or file that cannot be read is named with its line."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from tests.facts import assert_names
from trainables.data import DataError
from trainables.data.files import ENDINGS, Row, find_files, read_file, read_tables
from trainables.data.rows import passage, question, read_rows, text

ROWS: list[dict[str, Any]] = [
    {"question": "Où?", "answer": "à Łódź\n, là", "perturbed_answer": ["non", "si"]},
    # JSON allows U+2028, U+2029 and U+0085 unescaped; Python's ``splitlines`` would split there.
    {"question": "Who?", "answer": 'A "quoted", \u2028 \u2029 \x85 one', "perturbed_answer": ["no", "yes"]},
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
    (tmp_path / "array.json").write_text(json.dumps(ROWS, indent=2))
    assert [row.value for row in read_file(tmp_path / "array.json")] == ROWS


@pytest.mark.parametrize("name", ["t.jsonl", "t.csv"])
def test_byte_order_marks_and_line_ends_of_windows_are_ignored(tmp_path: Path, name: str) -> None:
    rows = [{"question": "Q?", "answer": "A."}, {"question": "R?", "answer": "B."}]
    path = write(tmp_path / name, rows)
    content = path.read_bytes().replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    path.write_bytes(b"\xef\xbb\xbf" + content + b"\r\n")
    assert [row.value for row in read_file(path)] == rows


@pytest.mark.parametrize(
    "layout",
    [
        *("a/b.json", "a-b.jsonl", "a/b-00000-of-00001.parquet", "a-b-00000-of-00001.parquet"),
        *("a/b/train-00000-of-00001.parquet", "a/b/train/0000.parquet"),
    ],
)
def test_a_table_is_found_in_the_layouts_of_the_hub(tmp_path: Path, layout: str) -> None:
    """The hub's repositories keep outdated JSON beside some parquet files."""
    write(tmp_path / "a/b_icl.json")
    write(tmp_path / "a/b_icl-00000-of-00001.parquet")
    if layout.startswith("a/b-"):
        write(tmp_path / "a/b.json")
    path = write(tmp_path / layout)
    assert find_files(tmp_path, "a/b") == (path,)


def test_a_table_in_two_formats_is_refused(tmp_path: Path) -> None:
    for name in ("forget.jsonl", "forget.csv", "retain.csv"):
        (tmp_path / name).write_text('{"text": "a"}\n' if name.endswith("l") else "text\na\n", encoding="utf-8")
    tables = read_tables(tmp_path, ["forget", "retain"], expected="files")
    assert [row.problem for row in tables["retain"]] == [""]
    assert_names(tables["forget"][-1].problem, "forget.jsonl and forget.csv", "keep one")


def test_a_table_in_parts_is_read_in_order(tmp_path: Path) -> None:
    for number, row in enumerate(ROWS):
        write(tmp_path / f"b-0000{number}-of-00002.parquet", [row])
    assert [row.value for row in read_tables(tmp_path, ["b"], expected="b")["b"]] == ROWS


def test_all_files_that_cannot_be_read_are_named_at_once(tmp_path: Path) -> None:
    write(tmp_path / "good.json")
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 and no more")
    (tmp_path / "empty.jsonl").write_text("\n\n")
    (tmp_path / "array.json").write_text('[{"question": "Q?"},\n{"question": }]')
    (tmp_path / "bad.json").write_text(f'{json.dumps(ROWS[0])}\n{{"question": "Q?"}}\n{{no json')
    names = ["good", "torn", "absent", "empty", "array", "bad"]
    with pytest.raises(DataError) as refusal:
        read_rows(read_tables(tmp_path, names, expected="six files"), dict.fromkeys(names, question))
    torn, absent, empty, array, bad, no_json = refusal.value.problems
    assert_names(torn, f"{tmp_path}/torn.parquet:", "parquet")
    assert_names(absent, f"{tmp_path}/absent.json:", ".jsonl, .parquet or .csv", "--data-dir", "six files")
    assert_names(empty, f"{tmp_path}/empty.jsonl:", "no rows")
    assert_names(array, f"{tmp_path}/array.json:", "line 2", "JSON")
    assert_names(bad, f"{tmp_path}/bad.json, line 2:", "'answer'")
    assert_names(no_json, f"{tmp_path}/bad.json, line 3:", "JSON")


@pytest.mark.parametrize("name", ["t.jsonl", "array.json", "t.csv"])
@pytest.mark.parametrize(
    ("encoding", "facts"),
    [
        ("latin-1", ("line 2", "byte 0xe9", "WINDOWS-1252")),
        ("utf-16", ("in UTF-16", "-f UTF-16 ")),
        ("utf-16-le", ("UTF-16", "-f UTF-16LE")),
        ("utf-32", ("in UTF-32", "-f UTF-32")),
    ],
)
def test_a_file_that_is_not_in_utf8_is_one_problem(
    tmp_path: Path, name: str, encoding: str, facts: tuple[str, ...]
) -> None:
    row = '{"question": "caf\xe9", "answer": "A"}'
    contents = {"t.jsonl": f"{{}}\n{row}\n{row}", "array.json": f"[\n{row}]", "t.csv": "question,answer\n\xe9,A\n"}
    (tmp_path / name).write_bytes(contents[name].encode(encoding))
    with pytest.raises(DataError) as refusal:
        read_file(tmp_path / name)
    (problem,) = refusal.value.problems
    assert_names(problem, str(tmp_path / name), "UTF-8", *facts)


def test_a_compressed_file_with_another_ending_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_bytes(gzip.compress(json.dumps(ROWS[0]).encode()))
    with pytest.raises(DataError) as refusal:
        read_file(tmp_path / "t.jsonl")
    (problem,) = refusal.value.problems
    assert_names(problem, f"{tmp_path}/t.jsonl", "gzip", "gunzip")


@pytest.mark.parametrize("separator", ["\n", ",\n"])
def test_json_objects_over_several_lines_are_one_problem(tmp_path: Path, separator: str) -> None:
    (tmp_path / "t.jsonl").write_text(separator.join(json.dumps(row, indent=2) for row in ROWS))
    with pytest.raises(DataError) as refusal:
        read_file(tmp_path / "t.jsonl")
    (problem,) = refusal.value.problems
    assert_names(problem, str(tmp_path / "t.jsonl"), "several lines", "one object per line")


def test_a_file_without_any_json_is_one_problem(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text("question,answer\nQ?,A.\n")
    with pytest.raises(DataError, match=r"^cannot read .*t.jsonl: no line is a JSON object; line 1: Expecting value"):
        read_file(tmp_path / "t.jsonl")


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_pointer_of_git_lfs_is_named(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"t{ending}"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n")
    with pytest.raises(DataError) as refusal:
        read_file(path)
    (problem,) = refusal.value.problems
    assert_names(problem, str(path), "Git LFS pointer", "git lfs pull")


@pytest.mark.parametrize("other", ["t.jsonl.gz", "t.json.zip", "t.csv.zst", "t.txt", "t.parquet.gz"])
def test_a_file_of_another_format_is_named(tmp_path: Path, other: str) -> None:
    (tmp_path / other).write_bytes(b"")
    (row,) = read_tables(tmp_path, ["t"], expected="t")["t"]
    assert_names(row.problem, f"found {other}:", "decompress")


def test_a_csv_cell_is_what_is_written_and_a_bad_row_or_a_row_longer_than_the_header_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("question,answer,paraphrased_answer,perturbed_answer\nNA,007\nnull,nan,,\n")
    assert [[*dict(row.value).values()] for row in read_file(path)] == [["NA", "007", "", ""], ["null", "nan", "", ""]]
    path.write_text('question,answer,perturbed_answer\nQ?,A.,\nQ?,A.,"[""x"""\n')
    assert_names(read_file(path)[1].problem, f"{path}, row 2:", "perturbed_answer")
    for rows in ("Q?,Yes, really\nQ?,A, B\n", "Q?,A.\nQ?,Yes, really\n"):
        path.write_text(f"question,answer\n{rows}")
        with pytest.raises(DataError, match="not a CSV table"):
            read_file(path)


def rows_of(*values: object) -> list[Row]:
    return [Row(f"f, line {number}", value) for number, value in enumerate(values, start=1)]


@pytest.mark.parametrize(
    ("kind", "value", "facts"),
    [
        (question, None, ("question and answer", "None")),
        (question, {"question": " ", "answer": "A"}, ("'question'", "' '")),
        (question, {"question": "Q", "answer": "A", "paraphrased_answer": 1}, ("'paraphrased_answer'", "a text")),
        (question, {"question": "Q", "answer": "A", "perturbed_answer": [""]}, ("'perturbed_answer'", "a list")),
        (text, {"text": "a\ud800b"}, ("'text'", "surrogate")),
        (passage, {"prompt": "P"}, ("'gt'", "None")),
    ],
)
def test_a_bad_row_is_named_with_its_place_column_and_value(kind: Any, value: object, facts: tuple[str, ...]) -> None:
    with pytest.raises(DataError) as refusal:
        read_rows({"t": rows_of(value)}, {"t": kind})
    assert_names(refusal.value, "f, line 1:", *facts)


def test_rows_with_the_same_fault_are_one_problem_and_twenty_faults_of_a_table_are_shown() -> None:
    good, same, others = {"text": "right"}, [{"text": 5}] * 30, [{"text": number} for number in range(6, 30)]
    with pytest.raises(DataError) as refusal:
        read_rows({"a": rows_of(good, *same, *others, good), "b": rows_of({"text": 5})}, {"a": text, "b": text})
    *shown, rest, _ = problems = refusal.value.problems
    places = [problem.split(":")[0] for problem in shown]
    assert places == ["f, line 2 and 29 more", *[f"f, line {number}" for number in range(32, 51)]]
    assert_names(rest, "a:", "5 more")
    assert str(refusal.value) == "\n".join(problems)
