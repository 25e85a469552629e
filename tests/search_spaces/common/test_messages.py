"""Phrases that messages share."""

from __future__ import annotations

import pytest

from search_spaces.common.messages import first_line


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
