"""The files in docs/extend.md are plug-ins that pass the suites, and all of them can be used in one run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "extend.md").read_text(encoding="utf-8")
BLOCKS = [*re.finditer(r"^```(?:python|jinja)\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)]
FILES: dict[str, str] = {}
for block in BLOCKS:  # the file's name is before the block; the last block is no file
    FILES.setdefault(re.findall(r"`(my_\w+\.\w+)`", PAGE[: block.start()])[-1], block[1])
SUITES = """
import pathlib, sys
from trainables import plugins

found = [plugins.read(path) for path in sys.argv[1:]]
plugins.use(found)
part = {item.kind: item.entry for plugin in found for item in plugin.parts}

from trainables.testing.datasets import check_dataset
from trainables.testing.metrics import check_metric
from trainables.testing.models import check_model
from trainables.testing.objectives import check_objective
from trainables.testing.weightings import check_weighting

check_weighting(part["weighting"])
check_objective(part["objective"])
check_metric(part["metric"])
check_dataset(part["data set"], limit=3)
check_model(part["model"])
print(sorted(part))
"""


def python(folder: Path, *words: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run Python in a new process, because plug-ins must be loaded before the registries are used."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(folder / "cache")}
    environment |= {"OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stdout[-2000:] + done.stderr[-3000:]
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the files on the page."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_the_page_has_a_file_of_each_kind_of_fewer_than_thirty_lines() -> None:
    kinds = ("weighting", "objective", "metric", "attack", "data", "model")
    assert set(FILES) == {*(f"my_{kind}.py" for kind in kinds), "my_prompt.jinja"}
    assert all(len(text.splitlines()) < 30 for text in FILES.values())


@pytest.mark.slow
def test_each_passes_its_suite_and_the_pages_way_to_test_them_works(folder: Path) -> None:
    assert "check_weighting(plugins.read" in BLOCKS[-1][1]
    done = python(folder, "-c", BLOCKS[-1][1] + SUITES, *FILES)
    assert done.stdout.strip() == "['attack', 'data set', 'metric', 'model', 'objective', 'template', 'weighting']"


@pytest.mark.slow
def test_all_of_them_can_be_used_in_one_run(folder: Path) -> None:
    plugins = [word for name in FILES if name.endswith(".py") for word in ("--plugin", name)]
    chosen = ("--method", "capped+seesaw", "--option", "cap=5", "--dataset", "elements", "--model", "two-layers")
    further = ("--template", "my_prompt.jinja", "--metrics", "default,worst_answer,noise")
    short = ("--target-epochs", "3", "--epochs", "1", "--batch-size", "2")
    done = python(folder, "-m", "sweeper", "unlearn", *plugins, *chosen, *further, *short, "--out", "run", "--json")
    row = json.loads(done.stdout)
    assert (row["status"], row["template"], row["cap"], row["tilt"]) == ("finished", "my_prompt", 5.0, 1.0)
    assert 0 <= row["worst_answer"] <= 1
    assert 0 <= row["utility_after_noise"] <= 1
    assert (folder / "run" / "checkpoint" / "model.safetensors").is_file()
