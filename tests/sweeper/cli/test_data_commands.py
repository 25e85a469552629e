"""Data sets on the command line: problems with a folder, and short runs on MUSE and on a user's own data."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sweeper.checks.world import choices
from sweeper.settings.resolve import resolve
from sweeper.settings.sources import from_python
from tests.sweeper.cli.conftest import invoke, names, problems_of

SHORT = ("--model", "tiny-phi", "--target-epochs", "1", "--max-length", "32", "--epochs", "1", "--limit", "4")


@pytest.fixture(autouse=True)
def _workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs here are real."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # Not with HF_HUB_OFFLINE: if huggingface_hub is first imported with it, this process stays offline.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


def jsonl_folder(folder: Path, **files: list[dict[str, str]]) -> Path:
    folder.mkdir()
    for name, rows in files.items():
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder


def run(out: Path, *arguments: object) -> dict[str, Any]:
    """Return the row of a short successful run."""
    result = invoke("unlearn", *arguments, *SHORT, "--out", out)
    assert result.exit_code == 0, result.output
    row: dict[str, Any] = json.loads((out / "metrics.json").read_text())
    assert row["status"] == "finished"
    return row


@pytest.mark.slow
def test_a_run_on_muse_has_the_metrics_of_muse(write_muse: Callable[..., Path], tmp_path: Path) -> None:
    row = run(tmp_path / "run", "--dataset", "muse-news", "--data-dir", write_muse())
    assert all(0.0 <= row[metric] <= 1.0 for metric in ("verbmem", "knowmem", "utility"))
    assert row["truth_ratio"] is None
    with (tmp_path / "run" / "history.csv").open() as file:
        last = list(csv.DictReader(file))[-1]
    assert float(last["knowmem"]) == row["knowmem"]


def test_a_run_on_ones_own_texts(tmp_path: Path) -> None:
    rows = [{"text": f"Text {n} is about the river and the town by it, where boats come in."} for n in range(8)]
    folder = jsonl_folder(tmp_path / "mine", forget=rows[:2], retain=rows[2:])
    row = run(tmp_path / "run", "--dataset", "jsonl", "--data-dir", folder)
    assert (row["steps"], row["limit"], row["knowmem"]) == (1, 4, None)
    assert row["verbmem"] is not None


def test_muse_trains_on_windows_of_2048_tokens_unless_given() -> None:
    def length(**given: object) -> int:
        return resolve("target", from_python("target", {"model": "tiny-phi", **given}), choices()).base.max_length

    assert length(dataset="muse-books") == 2048
    assert length(dataset="muse-books", max_length=256) == 256
    assert length() == 512


def test_every_bad_row_and_every_bad_option_is_one_problem(tmp_path: Path) -> None:
    folder = jsonl_folder(
        tmp_path / "mine", forget=[{"question": "Q?"}, {"question": "Q?", "answer": "A"}], retain=[{"text": "T"}]
    )
    found = problems_of(invoke("unlearn", "--dataset", "jsonl", "--data-dir", folder, "--epochs", "0"))
    expected = ("epochs 0", "forget.jsonl line 1 'answer'", "retain.jsonl forget.jsonl line 1")
    for problem, named in zip(found, expected, strict=True):
        assert names(problem, named.split())
