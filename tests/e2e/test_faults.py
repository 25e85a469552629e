"""What a sweep runs on fails: no trial is burnt for it, what happened is said, and ``resume`` ends as if it had not."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

Cli = Any  # conftest.py has the classes
Reference = Any


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    """A file system of that size at ``folder``."""
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True)
    if made.returncode:
        pytest.skip("this user may not mount a small file system")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def widen(folder: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=100m", folder], check=True)


def assert_results_equal(sweep: Any, reference: Reference) -> None:
    undisturbed, _ = reference
    assert sweep.results() == undisturbed.results()


def test_a_full_disk_burns_no_trial_and_resume_runs_what_it_ended(cli: Cli, reference: Reference) -> None:
    with small_disk(cli.folder / "full", "1500k"):
        sweep = cli.new("full/sweep")
        done = cli.run(*cli.pareto(sweep, *cli.grid), code=1)
        assert f"python -m sweeper resume {sweep.out}" in done.stderr + done.stdout
        failed = [row for row in sweep.trials if row["status"] == "failed"]
        assert 0 < len(failed) <= 2, "those that were running, and no other"
        assert all(row["error"].startswith("no space left on the disk") for row in failed)

        widen(sweep.out.parent)
        summary = json.loads(cli.run("resume", sweep.out, "--json").stdout)
        assert summary["status"] == {"finished": 4, "diverged": 2}
        assert summary["run_again"] == 0
        assert_results_equal(sweep, reference)


def test_memory_that_runs_out_is_named_and_the_trial_runs_again(cli: Cli) -> None:
    """Ray ends workers where a node has used more than a share of its memory; here that is always so."""
    sweep = cli.new("no-memory")
    one = ("--sampler", "grid", "--method", "ngdiff", "--lr", "0.05", "--epochs", "2", "--gpus-per-trial", "0")
    environment = {**cli.environment, "RAY_memory_usage_threshold": "0.01", "RAY_memory_monitor_refresh_ms": "100"}
    short = type(cli)(cli.folder, cli.problem, environment)
    done = short.run(*cli.pareto(sweep, *one), code=1)
    (row,) = sweep.trials
    assert row["status"] == "failed"
    assert row["error"].startswith("memory ran out on the node")
    log = sweep.out / row["error"].rpartition("(see ")[2].rstrip(")")
    assert "running low on memory" in log.read_text()
    assert f"python -m sweeper resume {sweep.out}" in done.stdout

    summary = json.loads(cli.run("resume", sweep.out, "--json").stdout)
    assert summary["status"] == {"finished": 1}
    assert os.listdir(sweep.out / "checkpoints")


def test_failed_trials_run_again_when_asked_to(cli: Cli) -> None:
    sweep = cli.new("failed")
    one = (
        "--sampler",
        "grid",
        "--method",
        "ngdiff",
        "--lr",
        "0.05",
        "--epochs",
        "2",
        "--gpus-per-trial",
        "0",
        "--json",
    )
    cli.run(*cli.pareto(sweep, *one))
    table = sweep.out / "trials.csv"
    (whole,) = sweep.trials
    text = table.read_text().replace(",finished,", ",failed,")
    table.write_text(text)
    summary = json.loads(cli.run("resume", sweep.out, "--json", code=1).stdout)
    assert summary["status"] == {"failed": 1}, "a failure of its own is a result"
    assert "--retry other: expected failed" in cli.run("resume", sweep.out, "--retry", "other", code=2).stderr
    summary = json.loads(cli.run("resume", sweep.out, "--retry", "failed", "--json").stdout)
    assert summary["status"] == {"finished": 1}
    assert sweep.trials[0]["forget_loss"] == whole["forget_loss"]


def test_the_password_of_the_tracking_address_is_in_no_output(cli: Cli) -> None:
    """Nobody answers at port 9, so what MLflow makes of the address in its errors is seen, too."""
    sweep = cli.new("password")
    address = "http://ann:s3cret-w0rd@127.0.0.1:9/mlflow"
    grid = ("--sampler", "grid", "--method", "ngdiff", "--lr", "0.05", "--epochs", "2", "--gpus-per-trial", "0")
    done = cli.run("pareto", *cli.problem, "--out", sweep.out, *grid, "--tracking-uri", address)
    again = cli.run("resume", sweep.out)
    assert "http://ann@127.0.0.1:9/mlflow" in done.stdout
    assert "MLFLOW_TRACKING_URI" in again.stderr, "where the password is to come from"
    assert "http://ann@127.0.0.1:9/mlflow" in sweep.json("sweep.json")["command"]
    for text in (done.stdout, done.stderr, again.stdout, again.stderr):
        assert "s3cret-w0rd" not in text
    files = [path for path in sweep.out.rglob("*") if path.is_file()]
    assert sweep.out / "report.html" in files
    assert [path for path in files if b"s3cret-w0rd" in path.read_bytes()] == []
