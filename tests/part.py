"""A pytest plugin that runs one part of the selected tests and starts no test after a time limit.

    python -m pytest -p tests.part --part 2/3 --minutes 35 -m "faults or cluster or browser or slow"

The parts are disjoint and together contain every selected test. Neighbouring tests go to different parts, so all parts
take about the same time. Tests that do not start before the time limit are skipped and listed at the end.
"""

from __future__ import annotations

import argparse
import time

import pytest

_LEFT_OUT = pytest.StashKey[list[str]]()
_DEADLINE = pytest.StashKey[float]()


def _part(text: str) -> tuple[int, int]:
    """Parse ``2/3`` as (2, 3)."""
    number, _, count = text.partition("/")
    if not (number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count)):
        raise argparse.ArgumentTypeError(f"expected NUMBER/COUNT with 1 <= NUMBER <= COUNT, got {text!r}")
    return int(number), int(count)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("part")
    group.addoption("--part", type=_part, default=(1, 1), help="NUMBER/COUNT: the part of the selected tests to run")
    group.addoption("--minutes", type=float, default=float("inf"), help="start no test after this number of minutes")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_LEFT_OUT] = []
    config.stash[_DEADLINE] = time.monotonic() + 60 * config.getoption("minutes")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep every COUNT-th of the tests that ``-m`` and ``-k`` selected."""
    number, count = config.getoption("part")
    chosen = items[number - 1 :: count]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
    items[:] = chosen


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if time.monotonic() > item.config.stash[_DEADLINE]:
        item.config.stash[_LEFT_OUT].append(item.nodeid)
        pytest.skip("no time left")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    number, count = config.getoption("part")
    left_out = config.stash[_LEFT_OUT]
    terminalreporter.section(f"part {number} of {count}")
    terminalreporter.line(f"{len(left_out)} tests were left out for lack of time")
    for nodeid in left_out:
        terminalreporter.line(nodeid)
