"""Phrases that messages share."""

from __future__ import annotations

import pytest

from search_spaces.common.messages import first_line, no_sweep, printable, shown


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("\n no such row \nat line 3"), "no such row "),
        (MemoryError(), "MemoryError"),
        (OSError(" "), "OSError"),
    ],
)
def test_an_error_without_a_message_is_named_by_its_class(error: Exception, line: str) -> None:
    assert first_line(error) == line


def test_control_characters_of_data_become_symbols() -> None:
    assert printable("a\x00\x1b[2J\x9b\tb\nc é 是") == "a␀␛[2J\ufffd\tb\nc é 是"
    assert shown(" one\n two\x07 three", 12) == "one two␇ ..."


def test_a_table_that_does_not_exist_is_not_called_a_folder() -> None:
    assert no_sweep("theirs.csv") == "theirs.csv does not exist"
    assert no_sweep("runs/sweep") == "runs/sweep holds no sweep: the folder does not exist"
