"""Assertions on the facts that a message names."""

from __future__ import annotations


def assert_names(message: object, *facts: object) -> None:
    """Assert that a message names each of these facts, such as an option, a file, a value or a line."""
    missing = [str(fact) for fact in facts if str(fact) not in str(message)]
    assert not missing, f"{missing} not named in: {message}"
