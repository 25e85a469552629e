"""The same command continues an interrupted single run, with the result of an uninterrupted run."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import Mock

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
LANDSCAPE = ("--auto-lr", "gen", "--auto-lr-every", "2", "--auto-lr-start", "1", "--landscape", "3")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _shared_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_questions(tmp_path / "data")


def unlearn(data: Path, out: Path | None, *more: str, epochs: int = 4, lr: str = "1e-3") -> Result:
    problem = ["--dataset", "jsonl", "--data-dir", str(data), "--target-epochs", "1", "--batch-size", "2"]
    folder = ["--out", str(out)] if out is not None else []
    return CliRunner().invoke(main, ["unlearn", *problem, "--epochs", str(epochs), "--lr", lr, *folder, *more])


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


def results(folder: Path) -> dict[str, object]:
    """Return the contents of a run's files, without times."""
    files: dict[str, object] = {str(path.relative_to(folder)): None for path in folder.rglob("*")}
    files |= {name: (folder / name).read_bytes() for name in ("checkpoint/model.safetensors", "items.json")}
    files |= {name: table(folder / name) for name in ("history.csv", "auto_lr.csv", "landscape.csv")}
    metrics = json.loads((folder / "metrics.json").read_text())
    return files | {"metrics.json": {name: metrics[name] for name in metrics if name not in TIMES + MOMENTS}}


def test_an_interrupted_run_continues_to_the_same_bits(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tmp_path / "whole"
    assert unlearn(data, whole, *LANDSCAPE).exit_code == 0
    # Save after every epoch, even if the disk is slow.
    monkeypatch.setattr("sweeper.store.unfinished_run.SAVE_SHARE", float("inf"))
    for after in (0, 2):
        out = tmp_path / f"after-{after}"
        with monkeypatch.context() as patch:
            interrupt(patch, after=after)
            stopped = unlearn(data, out, *LANDSCAPE)
        assert stopped.exit_code == 130
        assert names(stopped.stderr, ["python -m sweeper unlearn", f"--out {out}"])
        if after:
            assert len(table(out / "history.csv")) == after
            with (out / "history.csv").open("a") as file:
                file.write("half a li")
            (out / ".unfinished.pt.0123abcd").write_text("half a state")
        assert unlearn(data, out, *LANDSCAPE).exit_code == 0
        assert results(out) == results(whole)


def test_a_run_that_diverges_has_failed_and_leaves_its_metrics_without_a_checkpoint(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = unlearn(data, out, "--json", lr="1e9")
    assert done.exit_code == 1
    summary = json.loads(done.stdout)
    assert (summary["status"], summary["verbmem"]) == ("diverged", None)
    assert json.loads((out / "metrics.json").read_text()) == summary
    assert not (out / "checkpoint").exists()


def test_a_run_continues_with_the_number_of_threads_with_which_it_began(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With another number, sums would be rounded differently."""
    before = torch.get_num_threads()
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("sweeper.store.unfinished_run.SAVE_SHARE", float("inf"))
    with monkeypatch.context() as patch:
        patch.setattr("sweeper.single_run.use_free_threads", lambda: torch.set_num_threads(2))
        interrupt(patch, after=1)
        assert unlearn(data, tmp_path / "out").exit_code == 130
    monkeypatch.setattr("sweeper.single_run.use_free_threads", lambda: torch.set_num_threads(1))
    assert unlearn(data, tmp_path / "out").exit_code == 0
    threads = torch.get_num_threads()
    torch.set_num_threads(before)
    assert threads == 2


def test_another_run_or_another_process_does_not_continue_in_the_folder(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        interrupt(patch, after=1)
        assert unlearn(data, out).exit_code == 130
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    with UnfinishedRun(out).lock():
        assert unlearn(data, out).exit_code == 2
    for result, named in (
        (unlearn(data, out, epochs=5), "epochs"),
        (unlearn(data, out, "--auto-lr", "gen"), "auto_lr"),
    ):
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
    interrupted = Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr("sys.argv", ["sweeper", "target", "--dataset", "jsonl"])
    monkeypatch.setattr("sweeper.execution.target_task.prepare_target", interrupted)
    monkeypatch.setattr("sweeper.execution.target_task.Preparation.retain_model", interrupted)
    result = CliRunner().invoke(main, ["target", "--dataset", "jsonl", "--data-dir", str(data), *more])
    assert result.exit_code == 130
    assert "python -m sweeper target --dataset jsonl" in result.stderr
