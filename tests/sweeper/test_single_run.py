"""The same command continues an interrupted single run, with the result of an uninterrupted run."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result

from sweeper.cli.main import main
from sweeper.store.unfinished_run import UnfinishedRun
from tests.sweeper.cli.conftest import names
from tests.sweeper.conftest import write_questions
from trainables.run.combined_gradient import Columns
from trainables.run.run import UnlearningRun

TIMES = ("seconds", "reported_at", "train_seconds", "eval_seconds", "generation_seconds", "wall_seconds")
MOMENTS = ("started_at", "first_step_at", "ended_at")
LANDSCAPE = ("--auto-lr", "on", "--auto-lr-every", "2", "--landscape", "3")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _one_thread(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_questions(tmp_path / "data")


def unlearn(data: Path, out: Path | None, *more: str, epochs: int = 4) -> Result:
    problem = ["--dataset", "jsonl", "--data-dir", str(data), "--target-epochs", "1", "--batch-size", "2"]
    target = ["--out", str(out)] if out is not None else []
    return CliRunner().invoke(main, ["unlearn", *problem, "--epochs", str(epochs), "--lr", "1e-3", *target, *more])


def interrupt(monkeypatch: pytest.MonkeyPatch, *, after: int) -> None:
    """Interrupt the run in the second step after ``after`` epochs."""
    train_step = UnlearningRun._train_step

    def interrupted(run: UnlearningRun, *batches: Sequence[int]) -> Columns:
        columns = train_step(run, *batches)
        if run.step == 2 * after + 2:
            raise KeyboardInterrupt
        return columns

    monkeypatch.setattr(UnlearningRun, "_train_step", interrupted)


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return [{name: cell for name, cell in row.items() if name not in TIMES} for row in csv.DictReader(file)]


@pytest.mark.parametrize("after", [0, 2])
def test_an_interrupted_run_continues_to_the_same_bits(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    assert unlearn(data, whole, *LANDSCAPE).exit_code == 0
    # Save after every epoch, even if the disk is slow.
    monkeypatch.setattr("sweeper.store.unfinished_run.SAVE_SHARE", float("inf"))
    with monkeypatch.context() as patch:
        interrupt(patch, after=after)
        stopped = unlearn(data, out, *LANDSCAPE)
    assert stopped.exit_code == 130
    assert "python -m sweeper unlearn" in stopped.stderr
    assert f"--out {out}" in stopped.stderr
    assert len(table(out / "history.csv")) == after if after else not (out / "history.csv").exists()
    if after:
        with (out / "history.csv").open("a") as file:
            file.write("half a li")
        (out / ".unfinished.pt.0123abcd").write_text("half a state")

    done = unlearn(data, out, *LANDSCAPE, "--json")

    assert done.exit_code == 0, done.output
    for name in ("history.csv", "auto_lr.csv", "landscape.csv"):
        assert table(out / name) == table(whole / name)
    mine, theirs = (json.loads((folder / "metrics.json").read_text()) for folder in (out, whole))
    assert {n: v for n, v in mine.items() if n not in TIMES + MOMENTS} == {
        n: v for n, v in theirs.items() if n not in TIMES + MOMENTS
    }
    for name in ("checkpoint/model.safetensors", "items.json"):
        assert (out / name).read_bytes() == (whole / name).read_bytes()
    assert {path.name for path in out.iterdir()} == {path.name for path in whole.iterdir()}
    assert not list(out.glob("*unfinished*"))


def test_another_run_or_another_process_does_not_continue_in_the_folder(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        interrupt(patch, after=1)
        assert unlearn(data, out).exit_code == 130
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    with UnfinishedRun(out).held():
        assert unlearn(data, out).exit_code == 2
    for result, named in ((unlearn(data, out, epochs=5), "epochs"), (unlearn(data, out, "--auto-lr", "on"), "auto_lr")):
        assert result.exit_code == 2
        assert names(result.stderr, [named, "python -m sweeper unlearn", "--lr 1e-3"])
    (data / "retain.jsonl").write_text('{"question": "What is new?", "answer": "This."}\n')
    result = unlearn(data, out)
    assert result.exit_code == 2, result.output
    assert names(result.stderr, ["data"])
    assert {path.name: path.read_bytes() for path in out.iterdir() if path.name in before} == before


@pytest.mark.parametrize("more", [[], ["--retain-only"]])
def test_an_interrupted_target_has_the_command_that_continues(
    data: Path, monkeypatch: pytest.MonkeyPatch, more: list[str]
) -> None:
    def interrupted(*arguments: object, **given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sys.argv", ["sweeper", "target", "--dataset", "jsonl"])
    monkeypatch.setattr("sweeper.execution.target_task.prepare_target", interrupted)
    monkeypatch.setattr("sweeper.execution.target_task.Preparation.retain_model", interrupted)
    result = CliRunner().invoke(main, ["target", "--dataset", "jsonl", "--data-dir", str(data), *more])
    assert result.exit_code == 130
    assert "python -m sweeper target --dataset jsonl" in result.stderr


def test_every_metric_that_was_asked_for_is_printed(data: Path) -> None:
    write_questions(data, "holdout")
    result = unlearn(data, None, "--metrics", "mia", epochs=1)
    assert result.exit_code == 0, result.output
    assert "--out" in result.stderr, "the model will not be kept"
    as_json = json.loads(unlearn(data, None, "--metrics", "mia", "--json", epochs=1).stdout)
    measured = {name for name in as_json if "mia" in name and as_json[name] is not None and name != "metrics"}
    assert measured
    assert measured <= {line.split()[0] for line in result.stdout.splitlines()}
