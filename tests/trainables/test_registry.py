"""The registry refuses two entries of one name and a listed entry that does not exist.

tests/test_contributing.py tests that a file adds an entry.
"""

from __future__ import annotations

import pytest

from trainables import weightings
from trainables.registry import entries
from trainables.weightings import ga, gd


def test_two_entries_of_one_name_and_a_missing_listed_one_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    package, paths = weightings.__name__, weightings.__path__
    with pytest.raises(ValueError, match="gone"):
        entries(package, paths, "WEIGHTING", first=["gd", "gone"])
    monkeypatch.setattr(ga, "WEIGHTING", gd.WEIGHTING)
    with pytest.raises(ValueError, match="gd"):
        entries(package, paths, "WEIGHTING", first=["gd"])
