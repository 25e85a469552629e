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


@pytest.mark.parametrize(
    ("options", "outcomes"),
    [
        *((["--part", f"{number}/3"], {"passed": count}) for number, count in ((1, 3), (2, 2), (3, 2))),
        (["--minutes", "-1"], {"skipped": 7}),
        *((["--part", text], {}) for text in ("0/3", "4/3", "2", "a/b")),
    ],
)
def test_each_part_has_its_share_and_no_test_starts_after_the_time_limit(
    pytester: pytest.Pytester, options: list[str], outcomes: dict[str, int]
) -> None:
    pytester.makepyfile(TESTS)
    done = pytester.runpytest_inprocess("-p", "tests.part", "-p", "no:xdist", *options)
    assert done.ret == (0 if outcomes else pytest.ExitCode.USAGE_ERROR)
    found = done.parseoutcomes() if outcomes else {}
    assert {name: count for name, count in found.items() if name != "deselected"} == outcomes
    assert sum("::test_it[" in line for line in done.outlines) == outcomes.get("skipped", 0), "skipped tests are listed"
