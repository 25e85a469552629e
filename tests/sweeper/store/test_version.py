"""The version and the commit that a sweep records."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

import sweeper
from sweeper.store import version

ROOT = Path(__file__).parents[3]


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    return subprocess.run(["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout


def test_the_citation_names_the_version_of_the_code() -> None:
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == sweeper.__version__


def test_a_checkout_has_its_commit_and_whether_it_was_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(version.__file__, tmp_path / "version.py")
    monkeypatch.setattr(version, "__file__", str(tmp_path / "version.py"))
    assert version.commit() is None, "no repository"
    git(tmp_path, "init")
    (tmp_path / "other").write_text("of somebody else")
    git(tmp_path, "add", "other")
    git(tmp_path, "commit", "-m", "one")
    assert version.commit() is None, "installed into a folder of somebody else's repository"
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "two")
    head = git(tmp_path, "rev-parse", "HEAD").strip()
    assert version.commit() == head
    (tmp_path / "other").write_text("changed")
    assert version.commit() == f"{head}-dirty"
