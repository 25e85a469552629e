"""A small target that tests prepare in another process."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.sweeper.conftest import write_questions
from trainables.spec import TrialSpec


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The empty cache of this machine."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "driver"))
    return tmp_path / "driver" / "sweeper"


@pytest.fixture
def spec(tmp_path: Path, tiny_phi: Path, cache: Path) -> TrialSpec:
    """A spec with four questions and a tiny Phi that is fine-tuned on them for one step. The cache is empty."""
    data, base = write_questions(tmp_path / "data", count=2), shutil.copytree(tiny_phi, tmp_path / "base")
    given = {"data_dir": str(data), "model_path": str(base), "metrics": ("verbmem",), "max_length": 64}
    return TrialSpec(dataset="jsonl", target_epochs=1, **given)
