"""The plugin that divides the long tests into parts (tests/part.py)."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

TESTS = """
import pytest

@pytest.mark.parametrize("number", range(7))
def test_it(number):
    pass
"""


@pytest.fixture
def seven(pytester: pytest.Pytester) -> pytest.Pytester:
    """A folder with seven tests."""
    pytester.makepyfile(TESTS)
    return pytester


def outcome(pytester: pytest.Pytester, *arguments: str) -> tuple[dict[str, int], set[str]]:
    """How many tests there were by outcome, and the names of those that passed."""
    done = pytester.runpytest_inprocess("-p", "tests.part", "-p", "no:xdist", "-v", *arguments)
    assert done.ret == 0
    return done.parseoutcomes(), {line.split()[0] for line in done.outlines if " PASSED" in line}


def test_the_parts_are_disjoint_and_complete(seven: pytest.Pytester) -> None:
    parts = [outcome(seven, "--part", f"{number}/3")[1] for number in (1, 2, 3)]
    assert [len(part) for part in parts] == [3, 2, 2]
    assert len(set.union(*parts)) == 7


def test_no_test_starts_after_the_time_limit_and_those_left_out_are_listed(seven: pytest.Pytester) -> None:
    done = seven.runpytest_inprocess("-p", "tests.part", "--minutes", "-1")
    assert done.parseoutcomes() == {"skipped": 7}
    assert done.ret == 0
    assert sum("::test_it[" in line for line in done.outlines) == 7


@pytest.mark.parametrize("text", ["0/3", "4/3", "2", "a/b"])
def test_a_part_that_does_not_exist_is_refused(seven: pytest.Pytester, text: str) -> None:
    assert seven.runpytest_inprocess("-p", "tests.part", "--part", text).ret == pytest.ExitCode.USAGE_ERROR
