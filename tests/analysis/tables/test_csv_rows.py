"""Reading a CSV file that another process may be writing."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.errors import AnalysisError
from analysis.tables.csv_rows import read_rows

TORN = ("3", "3,", "3,fini", '3,"half an er', '3,"an error\nwith a line br', '3,"an error\n')


@pytest.mark.parametrize(
    ("text", "rows", "torn"),
    [
        (None, [], False),
        ("", [], False),
        ("a,", [], True),
        ('a,b\n007,"x, y"\n\n8,"two\nlines"\n9,\n', [(2, "007", "x, y"), (4, "8", "two\nlines"), (6, "9", "")], False),
        ("\ufeffa,b\r\n1,x\r\n", [(2, "1", "x")], False),
        *(("a,b\n1,x\n2,y\n" + tail, [(2, "1", "x"), (3, "2", "y")], True) for tail in TORN),
    ],
)
def test_complete_rows_keep_their_text_and_know_their_lines(
    tmp_path: Path, text: str | None, rows: list[tuple[object, ...]], torn: bool
) -> None:
    path = tmp_path / "trials.csv"
    if text is not None:
        path.write_bytes(text.encode())
    cells, is_torn = read_rows(path, required=["a", "b"])
    assert (list(cells), is_torn) == (["a", "b"], torn)
    assert [tuple(row) for row in cells.itertuples()] == rows


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (b"a,b\n1,2\n", "columns c, d.*a, b"),
        (b"a,c,d,a\n1,2,3,4\n", "column a"),
        (b"a,c,d\n1,2,3\n4,5\n6,7,8\n", "line 3: 2.*3"),
        (b"a,c,d\n1,2,3\n4,5,6,7\n", "line 3: 4.*3"),
        (b'a,c,d\n1,"2"x,3\n4,5,6\n', "line 2: not CSV"),
        (b"a,c,d\n1,\xff,3\n", "UTF-8"),
        (b'a,c,d\n"1,2,3\n4,5,6\n7,8,9\n', "line 2:.*quote"),
        (b"a,c,d\n1,2,3\n4,5,\0\0\n", "line 3:.*zero bytes"),
        (b"a,c,d,checkpoint\n1,2,3,checkpoints/../../x\n", "line 2: checkpoint"),
        (b"a,c,d,checkpoint\n1,2,3,/etc\n", "line 2: checkpoint.*'/etc'"),
        (b"a,c,d,trial_id\n1,2,3,..\\..\\x\n", "line 2: trial_id"),
    ],
)
def test_a_malformed_file_is_named_with_place_and_expectation(tmp_path: Path, text: bytes, named: str) -> None:
    path = tmp_path / "trials.csv"
    path.write_bytes(text)
    with pytest.raises(AnalysisError, match=rf"trials\.csv.*{named}"):
        read_rows(path, required=["a", "c", "d"])
