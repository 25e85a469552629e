"""The versions in constraints.txt can be installed with the oldest Python that pyproject.toml allows."""

from __future__ import annotations

import tomllib
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]


def test_every_pinned_package_accepts_the_oldest_python() -> None:
    oldest = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"].removeprefix(">=")
    lines = (line.partition("#")[0].strip() for line in (ROOT / "constraints.txt").read_text().splitlines())
    checked, refused = 0, []
    for pinned in map(Requirement, filter(None, lines)):
        try:
            package = metadata(pinned.name)
        except PackageNotFoundError:  # needed on another system only
            continue
        if pinned.specifier.contains(package["Version"]):
            checked += 1
            (needed,) = package.get_all("Requires-Python") or [""]
            if not SpecifierSet(needed).contains(f"{oldest}.0"):
                refused.append(f"{pinned} needs Python {needed}")
    assert refused == []
    assert checked > 50
