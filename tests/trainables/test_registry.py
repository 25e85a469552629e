"""The registry refuses two entries of one name and a listed entry that does not exist.

That a part is one file is tried in tests/test_contributing.py.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainables import weightings
from trainables.registry import entries

NGDIFF_AGAIN = """
from dataclasses import replace
from trainables.weightings.ngdiff import WEIGHTING as NGDIFF

WEIGHTING = replace(NGDIFF, citation="Toy 2026")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose files are modules of the package of weightings."""
    before = set(sys.modules)
    monkeypatch.setattr(weightings, "__path__", [*weightings.__path__, str(tmp_path)])
    importlib.invalidate_caches()
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_two_files_of_one_name_and_a_missing_listed_one_are_refused(folder: Path) -> None:
    named = {"package": weightings.__name__, "paths": weightings.__path__, "attribute": "WEIGHTING"}
    (folder / "again.py").write_text(NGDIFF_AGAIN)
    with pytest.raises(ValueError, match="ngdiff"):
        entries(**named, first=["gd"])
    (folder / "again.py").rename(folder / "toy.py")
    (folder / "toy.py").write_text(NGDIFF_AGAIN.replace("NGDIFF,", 'NGDIFF, name="toy",'))
    importlib.invalidate_caches()
    assert list(entries(**named, first=list(weightings.WEIGHTINGS))) == [*weightings.WEIGHTINGS, "toy"]
    with pytest.raises(ValueError, match="gone"):
        entries(**named, first=["gd", "gone"])
