"""Reading a CSV file that another process may be writing."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.errors import AnalysisError
from analysis.tables.csv_rows import CsvRow, read_rows


def _file(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "trials.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("text", [None, "", "trial_id,sta"], ids=["no file", "empty file", "header not yet whole"])
def test_a_table_that_is_not_there_yet_has_no_rows(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "trials.csv" if text is None else _file(tmp_path, text)
    content = read_rows(path, required=["trial_id"])
    assert (content.columns, content.rows, content.torn) == (("trial_id",), (), text == "trial_id,sta")


def test_rows_keep_their_text_and_know_their_lines(tmp_path: Path) -> None:
    path = _file(tmp_path, 'a,b\n007,"x, y"\n\n8,"two\nlines"\n9,\n')
    assert read_rows(path, required=["a"]).rows == (
        CsvRow(2, ("007", "x, y")),
        CsvRow(4, ("8", "two\nlines")),
        CsvRow(6, ("9", "")),
    )


@pytest.mark.parametrize(
    "tail",
    ["3", "3,", "3,fini", '3,"half an er', '3,"an error\nwith a line br', '3,"an error\n'],
    ids=["in the first cell", "after a comma", "in a word", "in quotes", "in a second line", "at a line break"],
)
def test_a_half_written_last_row_is_left_out(tmp_path: Path, tail: str) -> None:
    content = read_rows(_file(tmp_path, "a,b\n1,x\n2,y\n" + tail), required=["a", "b"])
    assert [row.cells for row in content.rows] == [("1", "x"), ("2", "y")]
    assert content.torn


def test_a_byte_order_mark_and_windows_line_ends_are_no_part_of_the_cells(tmp_path: Path) -> None:
    content = read_rows(_file(tmp_path, "\ufeffa,b\r\n1,x\r\n"), required=["a", "b"])
    assert (content.columns, content.rows[0].cells, content.torn) == (("a", "b"), ("1", "x"), False)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("a,b\n1,2\n", "columns c, d.*a, b"),
        ("a,c,d,a\n1,2,3,4\n", "column a"),
        ("a,c,d\n1,2,3\n4,5\n6,7,8\n", "line 3: 2.*3"),
        ("a,c,d\n1,2,3\n4,5,6,7\n", "line 3: 4.*3"),
        ('a,c,d\n1,"2"x,3\n4,5,6\n', "line 2: not CSV"),
        (b"a,c,d\n1,\xff,3\n", "UTF-8"),
        ('a,c,d\n"1,2,3\n4,5,6\n7,8,9\n', "line 2:.*quote"),
        ("a,c,d\n1,2,3\n4,5,\0\0\n", "line 3:.*zero bytes"),
        ("a,c,d,checkpoint\n1,2,3,checkpoints/../../x\n", "line 2: checkpoint"),
        ("a,c,d,checkpoint\n1,2,3,/etc\n", "line 2: checkpoint.*'/etc'"),
        ("a,c,d,trial_id\n1,2,3,..\\..\\x\n", "line 2: trial_id"),
    ],
)
def test_a_malformed_file_is_named_with_place_and_expectation(tmp_path: Path, text: str | bytes, named: str) -> None:
    with pytest.raises(AnalysisError, match=rf"trials\.csv.*{named}"):
        read_rows(_file(tmp_path, text), required=["a", "c", "d"])
