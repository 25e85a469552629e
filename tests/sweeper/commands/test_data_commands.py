"""Data sets from the command line: what there is, what is wrong with a folder, and short runs on MUSE and one's own."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sweeper.commands.conftest import invoke, problems_of

SHORT = ("--model", "tiny-phi", "--target-epochs", "2", "--max-length", "32", "--epochs", "2", "--eval-batch-size", "4")


@pytest.fixture(autouse=True)
def _workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs here are real."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # Not by HF_HUB_OFFLINE: whoever imports huggingface_hub first under it leaves this process offline for good.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


def jsonl_folder(folder: Path, **files: list[dict[str, str]]) -> Path:
    folder.mkdir()
    for name, rows in files.items():
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder


def test_the_data_sets_are_listed_with_what_they_need() -> None:
    listed = {row["name"]: row for row in json.loads(invoke("list", "datasets", "--json").stdout)}
    assert {"authors", "tofu", "muse-news", "muse-books", "jsonl"} <= set(listed)
    assert listed["tofu"]["forget splits"] == "forget01, forget05, forget10"
    assert listed["muse-news"]["hub"] == "muse-bench/MUSE-News"
    assert "forget.jsonl" in listed["jsonl"]["data-dir"]
    text = invoke("list", "datasets").stdout
    assert "    forget splits: forget, scal_1" in text


def test_a_short_run_on_muse_measures_what_muse_measures(write_muse: Callable[..., Path], tmp_path: Path) -> None:
    out = tmp_path / "run"
    result = invoke("unlearn", "--dataset", "muse-news", "--data-dir", write_muse(), *SHORT, "--out", out)
    assert result.exit_code == 0, result.output
    row = json.loads((out / "metrics.json").read_text())
    assert (row["status"], row["dataset"]) == ("finished", "muse-news")
    for metric in ("verbmem", "knowmem", "utility"):
        assert 0.0 <= row[metric] <= 1.0
    assert row["truth_ratio"] is None
    assert 0.0 <= row["padding"] < 0.5
    with (out / "history.csv").open() as file:
        last = list(csv.DictReader(file))[-1]
    assert float(last["padding"]) == row["padding"]
    assert float(last["knowmem"]) == row["knowmem"]


@pytest.mark.parametrize("kind", ["questions", "texts"])
def test_a_short_run_on_ones_own_files(tmp_path: Path, kind: str) -> None:
    def row(number: int) -> dict[str, str]:
        if kind == "texts":
            return {"text": f"Text {number} is about the river and the town by it, where boats come in."}
        return {"question": f"What is number {number}?", "answer": f"It is {number}."}

    folder = jsonl_folder(tmp_path / "mine", forget=[row(1), row(2)], retain=[row(n) for n in range(3, 9)])
    out = tmp_path / "run"
    result = invoke(
        "unlearn", "--dataset", "jsonl", "--data-dir", folder, *SHORT, "--limit", "4", "--out", out, "--json"
    )
    assert result.exit_code == 0, result.output
    row_of_run = json.loads(result.stdout)
    assert (row_of_run["status"], row_of_run["steps"], row_of_run["limit"]) == ("finished", 2, 4)
    assert row_of_run["verbmem"] is not None
    assert row_of_run["knowmem"] is None


def test_muse_trains_on_windows_of_2048_tokens_unless_told_otherwise(write_muse: Callable[..., Path]) -> None:
    from sweeper.commands.checks import base_spec

    given = {"model": "tiny-phi", "dataset": "muse-books"}
    assert base_spec(given, []).max_length == 2048
    assert base_spec({**given, "max_length": 256}, []).max_length == 256
    assert base_spec({"model": "tiny-phi"}, []).max_length == 512


def test_every_bad_row_and_every_bad_option_is_one_line(tmp_path: Path) -> None:
    folder = jsonl_folder(
        tmp_path / "mine",
        forget=[{"question": "Q?"}, {"question": "Q?", "answer": "A"}],
        retain=[{"text": "T"}],
    )
    found = problems_of(invoke("unlearn", "--dataset", "jsonl", "--data-dir", folder, "--epochs", "0"))
    assert [problem.replace(f"{folder}/", "") for problem in found] == [
        "epochs must be at least 1, got 0",
        "forget.jsonl, line 1: column 'answer' must be a non-empty text, got None",
        "retain.jsonl, line 1: this is plain text, but forget.jsonl, line 1 is a question; use one kind in all files",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--dataset", "jsonl"), "data set jsonl needs --data-dir DIR with forget.jsonl and retain.jsonl"),
        (("--dataset", "jsonl", "--data-dir", "nowhere"), "no such folder; it needs forget.jsonl and retain.jsonl"),
        (("--dataset", "muse-news", "--data-dir", "nowhere"), "no such folder; it needs the files of muse-bench"),
        (("--dataset", "muse-news", "--data-dir", ".", "--forget-split", "scal_5"), "expected one of forget, scal_1"),
        (("--dataset", "muse-books"), "cannot get the dataset muse-bench/MUSE-Books from the hub"),
    ],
)
def test_data_that_cannot_be_had_are_refused_in_plain_words(arguments: tuple[str, ...], said: str) -> None:
    (problem,) = problems_of(invoke("unlearn", "--model", "tiny-phi", *arguments))
    assert said in problem
