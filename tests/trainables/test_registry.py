"""A weighting or an objective is one file: dropped into its package it is in the registry, after those listed."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from trainables import objectives, weightings
from trainables.objectives import MeanOver
from trainables.registry import entries
from trainables.testing.objectives import check_objective
from trainables.testing.weightings import check_weighting

TOY_WEIGHTING = '''
from trainables.weightings.base import Gramian, Needs, Weighting, Weights, of_gramian

def weights(gramian: Gramian) -> Weights:
    """Of unit sum, more for the shorter gradient, by the squares of the norms."""
    total = gramian.rr + gramian.ff
    return Weights(gramian.ff / total, gramian.rr / total) if total else Weights(0.5, 0.5)

WEIGHTING = Weighting("toy", "(|g_f|^2, |g_r|^2)/sum", Needs.GRAMIAN, of_gramian(weights), "Toy et al. 2025")
'''

TOY_OBJECTIVE = """
from trainables.objectives.base import ForgetObjective, MeanOver

OBJECTIVE = ForgetObjective(
    "toy",
    "-mean NLL per sequence",
    "Toy et al. 2025",
    loss=lambda batch, options: -batch.token_nll.sum(dim=1).mean(),
    mean_over=MeanOver.SEQUENCES,
)
"""


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose files are modules of both packages."""
    before = set(sys.modules)
    for package in (weightings, objectives):
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    importlib.invalidate_caches()
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_new_weighting_is_one_file(room: Path) -> None:
    (room / "toy.py").write_text(TOY_WEIGHTING)
    found = entries(weightings.__name__, weightings.__path__, "WEIGHTING", first=list(weightings.WEIGHTINGS))
    assert list(found) == [*weightings.WEIGHTINGS, "toy"]
    check_weighting(found["toy"], symmetric=True)


def test_a_new_objective_is_one_file(room: Path) -> None:
    (room / "toy.py").write_text(TOY_OBJECTIVE)
    found = entries(objectives.__name__, objectives.__path__, "OBJECTIVE", first=list(objectives.OBJECTIVES))
    assert list(found) == [*objectives.OBJECTIVES, "toy"]
    check_objective(found["toy"])
    with pytest.raises(AssertionError, match="supervised tokens"):
        check_objective(replace(found["toy"], mean_over=MeanOver.TOKENS))


def test_two_files_of_one_name_and_a_missing_listed_one_are_refused(room: Path) -> None:
    (room / "again.py").write_text(TOY_WEIGHTING.replace('"toy"', '"ngdiff"'))
    named = {"package": weightings.__name__, "paths": weightings.__path__, "attribute": "WEIGHTING"}
    with pytest.raises(ValueError, match="ngdiff"):
        entries(**named, first=["gd"])
    (room / "again.py").unlink()
    with pytest.raises(ValueError, match="gone"):
        entries(**named, first=["gd", "gone"])
