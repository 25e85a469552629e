"""The browser of the tests of report.html."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser import Browser, browsing


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as found:
        yield found
