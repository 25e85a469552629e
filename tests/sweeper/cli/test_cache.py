"""``cache`` lists the cached files and prunes unused ones."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from tests.sweeper.cli.conftest import invoke, json_of, names
from trainables.target.cache import cache_folder

DAY = 86_400


def aged(path: Path, days: float) -> None:
    at = time.time() - days * DAY
    os.utime(path, (at, at))


def test_the_cache_is_listed_with_sizes_and_ages_and_pruned() -> None:
    """An old and a new target, an unfinished training, and scores."""
    folder = cache_folder()
    for name, data, days in (("a" * 16, "authors", 40), ("b" * 16, "tofu/forget01", 1)):
        target = folder / "targets" / name
        target.mkdir(parents=True)
        (target / "model.safetensors").write_bytes(b"x" * 2_000_000)
        (target / "target.json").write_text(json.dumps({"model": "tiny-phi", "data": data}))
        aged(target / "target.json", days)
    others = {"unfinished/c.pt": 50, "baselines/d.json": 40, "baselines/e.json": 2}
    for place, days in others.items():
        (folder / place).parent.mkdir(exist_ok=True)
        (folder / place).write_bytes(b"y" * 1000)
        aged(folder / place, days)

    (folder / "unfinished" / "a.lock").touch()  # not listed, and not removed

    def left() -> set[str]:
        return {path.relative_to(folder).as_posix() for path in folder.glob("*/*") if path.suffix != ".lock"}

    before = left()
    assert names(invoke("cache").stdout, ["a" * 16, "authors", "40 days", "24 h", "unfinished", f"4.0 MB in {folder}"])
    assert left() == before
    assert names(invoke("cache", "--prune").stdout, [f"2.0 MB freed in {folder}"])
    assert left() == {f"targets/{'b' * 16}", "baselines/e.json"}, "used in the last 30 days"
    assert json_of("cache", "--prune")["entries"] == []
    found = json_of("cache", "--prune", "--older-than", "0")
    assert found["removed"] is True
    assert {entry["kind"] for entry in found["entries"]} == {"targets", "baselines"}
    assert left() == set()
