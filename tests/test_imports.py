"""Modules and folders do not import each other in a circle. Imports inside functions count, too."""

from __future__ import annotations

from collections.abc import Callable
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("search_spaces", "trainables", "sweeper", "analysis")


def room(module: str) -> str:
    """Return the first folder below a package, or the module if it is not in such a folder."""
    return ".".join(module.split(".")[:2])


@pytest.mark.parametrize("place", [str, room])
def test_imports_have_an_order(place: Callable[[str], str]) -> None:
    """The graph has all imports except those for type checking only."""
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=True)
    builds_on: dict[str, set[str]] = {}
    for module in graph.modules:
        others = {place(name) for name in graph.find_modules_directly_imported_by(module)} - {place(module)}
        builds_on.setdefault(place(module), set()).update(others)
    try:
        TopologicalSorter(builds_on).prepare()
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' -> '.join(error.args[1])}")
