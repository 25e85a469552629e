"""Check which facts a message contains."""

from __future__ import annotations


def assert_names(message: object, *facts: object) -> None:
    """Assert that a message contains each of these facts, such as an option, a file, a value or a line."""
    missing = [str(fact) for fact in facts if str(fact) not in str(message)]
    assert not missing, f"{missing} not named in: {message}"
