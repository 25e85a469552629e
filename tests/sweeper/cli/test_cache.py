"""``cache`` lists the cached files and prunes unused ones."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from tests.sweeper.cli.conftest import invoke, json_of, names
from trainables.target.cache import cache_folder

DAY = 86_400


@pytest.fixture
def kept() -> Path:
    """A cache with an old and a new target, an unfinished training, scores, and a leftover of a killed process."""
    folder = cache_folder()
    for name, data, days in (("a" * 16, "authors", 40), ("b" * 16, "tofu/forget01", 1)):
        target = folder / "targets" / name
        target.mkdir(parents=True)
        (target / "model.safetensors").write_bytes(b"x" * 2_000_000)
        (target / "target.json").write_text(json.dumps({"model": "tiny-phi", "data": data}))
        aged(target / "target.json", days)
    others = {"unfinished/c.pt": 50, "baselines/d.json": 40, "baselines/e.json": 2, "targets/.f.01234567": 3}
    for place, days in others.items():
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


def test_what_is_kept_is_listed_with_size_and_age(kept: Path) -> None:
    before = left(kept)
    lines = [line.split() for line in invoke("cache").stdout.splitlines()]
    for words in (["a" * 16, "authors", "2.0", "40"], ["b" * 16, "tofu/forget01", "24"], ["unfinished", "50"]):
        assert any(set(words) <= set(line) for line in lines), words
    assert {"4.0", "MB", str(kept) + ";", "--prune", "30"} <= set(lines[-1])
    assert left(kept) == before


def test_pruning_removes_what_was_unused_for_30_days_or_for_the_given_number_of_days(kept: Path) -> None:
    assert names(invoke("cache", "--prune").stdout.splitlines()[-1], ["2.0 MB", str(kept)])
    assert left(kept) == {f"targets/{'b' * 16}", "baselines/e.json"}
    assert json_of("cache", "--prune")["entries"] == []
    found = json_of("cache", "--prune", "--older-than", "0")
    assert found["removed"] is True
    assert {entry["kind"] for entry in found["entries"]} == {"target", "baselines"}
    assert left(kept) == set()
