"""Short runs on MUSE and on a user's own texts."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.sweeper.cli.conftest import invoke

SHORT = ("--model", "tiny-phi", "--target-epochs", "1", "--max-length", "32", "--epochs", "1", "--limit", "4")


@pytest.fixture(autouse=True)
def _workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs here are real."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # Not with HF_HUB_OFFLINE: if huggingface_hub is first imported with it, this process stays offline.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


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
    rows = [json.dumps({"text": f"Text {n} is about the river and the town, where boats come in."}) for n in range(8)]
    (tmp_path / "forget.jsonl").write_text("\n".join(rows[:2]))
    (tmp_path / "retain.jsonl").write_text("\n".join(rows[2:]))
    row = run(tmp_path / "run", "--dataset", "jsonl", "--data-dir", tmp_path)
    assert (row["steps"], row["limit"], row["knowmem"]) == (1, 4, None)
    assert row["verbmem"] is not None
