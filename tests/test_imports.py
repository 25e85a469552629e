"""No circle of imports, neither of files nor of rooms, those inside functions counted in."""

from __future__ import annotations

from collections.abc import Callable
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("search_spaces", "trainables", "sweeper", "analysis")


def room(module: str) -> str:
    """The first folder below a package; a file beside the folders is a room of its own."""
    return ".".join(module.split(".")[:2])


@pytest.mark.parametrize("place", [str, room])
def test_imports_have_an_order(place: Callable[[str], str]) -> None:
    """The graph has every import, wherever it stands, but for those that only a type checker makes."""
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=True)
    builds_on: dict[str, set[str]] = {}
    for module in graph.modules:
        others = {place(name) for name in graph.find_modules_directly_imported_by(module)} - {place(module)}
        builds_on.setdefault(place(module), set()).update(others)
    try:
        TopologicalSorter(builds_on).prepare()
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' -> '.join(error.args[1])}")
