"""``cache``: what is kept, and what pruning removes."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sweeper.cli import main
from trainables.target.cache import cache_folder

DAY = 86_400


def invoke(*arguments: str) -> Result:
    result = CliRunner().invoke(main, ["cache", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


@pytest.fixture
def kept() -> Path:
    """A cache with an old and a new target, an unfinished training, scores, and what a killed writer left."""
    folder = cache_folder()
    for name, data, days in (("a" * 16, "authors", 40), ("b" * 16, "tofu/forget01", 1)):
        target = folder / "targets" / name
        target.mkdir(parents=True)
        (target / "model.safetensors").write_bytes(b"x" * 2_000_000)
        (target / "target.json").write_text(json.dumps({"model": "tiny-phi", "data": data}))
        aged(target / "target.json", days)
    for place, days in (
        ("unfinished/c.pt", 50), ("baselines/d.json", 40), ("baselines/e.json", 2), ("targets/.f.01234567", 3)
    ):  # fmt: skip
        path = folder / place
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"y" * 1000)
        aged(path, days)
    return folder


def aged(path: Path, days: float) -> None:
    at = time.time() - days * DAY
    os.utime(path, (at, at))


def left(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.glob("*/*")}


def test_what_is_kept_is_listed_with_size_and_age_largest_first(kept: Path) -> None:
    before = left(kept)
    lines = invoke().stdout.splitlines()
    first, second = sorted(" ".join(line.split()) for line in lines[:2])
    assert first == f"target {'a' * 16} tiny-phi on authors 2.0 MB used 40 days ago"
    assert second == f"target {'b' * 16} tiny-phi on tofu/forget01 2.0 MB used 24 h ago"
    assert any("unfinished training" in line and "50 days" in line for line in lines)
    assert any("baselines" in line and "2 files" in line for line in lines)
    assert lines[-1] == f"4.0 MB in {kept}; --prune removes what was not used for 30 days"
    assert left(kept) == before


def test_pruning_removes_what_was_not_used_for_a_while_and_nothing_else(kept: Path) -> None:
    result = invoke("--prune")
    assert result.stdout.splitlines()[-1] == f"2.0 MB freed in {kept}"
    assert left(kept) == {f"targets/{'b' * 16}", "baselines/e.json"}
    assert "nothing" in invoke("--prune").stdout


def test_pruning_by_another_age(kept: Path) -> None:
    found = json.loads(invoke("--prune", "--older-than", "0", "--json").stdout)
    assert found["removed"] is True
    assert {entry["kind"] for entry in found["entries"]} >= {"target", "unfinished training", "baselines"}
    assert left(kept) == set()


def test_an_empty_cache_and_a_wrong_age() -> None:
    assert invoke().stdout.startswith("0 B in ")
    result = invoke("--older-than", "-1")
    assert result.exit_code == 2
    assert "--older-than must be at least 0 days, got -1" in result.stderr
