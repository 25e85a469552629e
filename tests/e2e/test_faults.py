"""Failures of the disk, the memory, Ray and the terminal: the cause is reported, and resume runs lost trials again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.contract.product import Done, Sweep, wait_until
from tests.contract.tracking import records
from tests.e2e.conftest import GRID, Cli, results, small_disk, trainers

pytestmark = [pytest.mark.faults, pytest.mark.ray]


ONE = ("--sampler", "grid", "--method", "ngdiff", "--lr", "0.05", "--epochs", "2", "--gpus-per-trial", "0")
"""One short trial."""


def test_after_a_full_disk_resume_runs_the_failed_trials_again(cli: Cli, reference: tuple[Sweep, Done]) -> None:
    with small_disk(cli.folder / "full", "1500k") as is_small:
        if not is_small:
            pytest.skip("this user may not mount a small file system")
        sweep = cli.new("full/sweep")
        done = cli.run(*cli.pareto(sweep, *GRID), code=1)
        assert f"python -m sweeper resume {sweep.out}" in done.stderr + done.stdout
        failed = [row for row in sweep.trials if row["status"] == "failed"]
        assert 0 < len(failed) <= 2, "only running trials failed"
        assert all(row["error"].startswith("no space left on the disk") for row in failed)

        subprocess.run(["mount", "-o", "remount,size=100m", sweep.out.parent], check=True)
        summary = cli.run("resume", sweep.out, "--json").json
        assert summary["status"] == {"finished": 4, "stopped": 0, "diverged": 2, "failed": 0}
        assert summary["run_again"] == 0
        assert results(sweep) == results(reference[0])


def test_a_trial_that_ran_out_of_memory_has_this_error_and_runs_again(cli: Cli) -> None:
    """Ray kills workers of a node whose memory use exceeds a threshold. Here every use exceeds it."""
    sweep = cli.new("no-memory")
    environment = {**cli.environment, "RAY_memory_usage_threshold": "0.01", "RAY_memory_monitor_refresh_ms": "100"}
    done = replace(cli, environment=environment).run(*cli.pareto(sweep, *ONE), code=1)
    (row,) = sweep.trials
    assert row["status"] == "failed"
    assert row["error"].startswith("memory ran out on the node")
    log = sweep.out / row["error"].rpartition("(see ")[2].rstrip(")")
    assert "running low on memory" in log.read_text()
    assert f"python -m sweeper resume {sweep.out}" in done.stdout

    summary = cli.run("resume", sweep.out, "--json").json
    assert summary["status"] == {"finished": 1, "stopped": 0, "diverged": 0, "failed": 0}
    assert os.listdir(sweep.out / "checkpoints")


def test_failed_trials_run_again_with_the_option_retry(cli: Cli) -> None:
    sweep = cli.new("failed")
    cli.run(*cli.pareto(sweep, *ONE, "--json"))
    log = sweep.out / "events.jsonl"
    (whole,) = sweep.trials
    log.write_text(log.read_text().replace('"outcome": {"status": "finished"', '"outcome": {"status": "failed"'))
    summary = cli.run("resume", sweep.out, "--json", code=1).json
    expected = {"finished": 0, "stopped": 0, "diverged": 0, "failed": 1}
    assert summary["status"] == expected, "a failure of the trial itself is a result"
    wrong = cli.run("resume", sweep.out, "--retry", "other", code=2).stderr
    assert "retry" in wrong
    assert "failed" in wrong
    summary = cli.run("resume", sweep.out, "--retry", "failed", "--json").json
    assert summary["status"] == {"finished": 1, "stopped": 0, "diverged": 0, "failed": 0}
    assert sweep.trials[0]["forget_loss"] == whole["forget_loss"]


def test_the_password_of_the_tracking_uri_is_in_no_output_and_no_file(cli: Cli) -> None:
    """No server responds at port 9, so the errors of MLflow also contain the address."""
    sweep = cli.new("password")
    address = "http://ann:s3cret-w0rd@127.0.0.1:9/mlflow"
    done = cli.run("pareto", *cli.problem, "--out", sweep.out, *ONE, "--tracking-uri", address)
    again = cli.run("resume", sweep.out)
    assert "http://ann@127.0.0.1:9/mlflow" in done.stdout
    assert "MLFLOW_TRACKING_URI" in again.stderr, "the source of the password"
    assert "http://ann@127.0.0.1:9/mlflow" in sweep.json("sweep.json")["command"]
    for text in (done.stdout, done.stderr, again.stdout, again.stderr):
        assert "s3cret-w0rd" not in text
    files = [path for path in sweep.out.rglob("*") if path.is_file()]
    assert sweep.out / "report.html" in files
    assert [path for path in files if b"s3cret-w0rd" in path.read_bytes()] == []


def begun(cli: Cli, sweep: Sweep, **given: Any) -> subprocess.Popen[str]:
    """Start the grid in a session of its own. Two trials are running, and one may have ended."""
    process = cli.start_session(*cli.pareto(sweep, *GRID), **given)
    wait_until(lambda: len(sweep.history) >= 6, process)
    return process


def parent_status(cli: Cli, sweep: Sweep) -> str:
    return str(records(cli.tracking_uri, sweep.out.name).parent.info.status)


def test_sigterm_to_the_whole_process_group_ends_the_sweep_with_a_report(
    cli: Cli, reference: tuple[Sweep, Done]
) -> None:
    """Slurm and systemd also send SIGTERM to Ray's processes. Ray then blocks the driver and ends it after a minute."""
    sweep = cli.new("group")
    process = begun(cli, sweep)
    os.killpg(process.pid, signal.SIGTERM)
    done = cli.finish(process, code=130)
    assert f"python -m sweeper resume {sweep.out}" in done.stderr
    assert done.json == {"out": str(sweep.out), "interrupted": True}
    assert parent_status(cli, sweep) == "KILLED"
    summary = cli.run("resume", sweep.out, "--json").json
    assert summary["trials"] == 6
    assert results(sweep) == results(reference[0])


@pytest.mark.parametrize("name", ["gcs_server", "raylet"])
def test_the_loss_of_rays_head_is_reported_soon(cli: Cli, reference: tuple[Sweep, Done], name: str) -> None:
    sweep = cli.new(f"without-{name}")
    process = begun(cli, sweep)
    (head,) = [number for number, command in cli.processes().items() if command.split()[0].endswith(f"/{name}")]
    for number in (head, *trainers(cli)):  # otherwise the trials could finish before the loss is detected
        os.kill(number, signal.SIGKILL)
    done = cli.finish(process, code=1)
    summary = done.json
    assert "the loss of Ray's head" in summary["ended_because"]
    assert summary["run_again"] == 6 - len(sweep.ids("finished", "diverged"))
    assert parent_status(cli, sweep) == "KILLED"
    cli.end_processes(patience=60)
    assert cli.run("resume", sweep.out, "--json").json["run_again"] == 0
    assert results(sweep) == results(reference[0])


def listening(numbers: Iterable[int]) -> set[str]:
    """Return the addresses at which these processes listen, in the format of /proc."""
    inodes = set()
    for number in numbers:
        with contextlib.suppress(OSError):
            inodes |= {os.readlink(path) for path in Path(f"/proc/{number}/fd").iterdir()}
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return {row[1].partition(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in inodes}


def test_on_one_machine_workers_are_forks_and_nothing_listens_outside_it(cli: Cli) -> None:
    process = begun(cli, cli.new("alone"))
    running = cli.processes()
    found = listening(running)
    stats = [Path(f"/proc/{worker}/stat").read_text() for worker in trainers(cli)]
    parents = {int(stat.rpartition(")")[2].split()[1]) for stat in stats}
    process.send_signal(signal.SIGINT)
    cli.finish(process, code=130)
    assert len(stats) == 2
    assert ["fork_server" in running[parent] for parent in parents] == [True]
    assert found
    assert found <= {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


def test_under_uv_run_workers_have_the_interpreter_of_the_driver(cli: Cli, tmp_path: Path) -> None:
    """Ray would start each worker with another 'uv run', in a copy of the working folder without an environment."""
    (tmp_path / "run").write_text("import subprocess, sys\nsys.exit(subprocess.call(sys.argv[1:]))\n")
    sweep = cli.new("uv")
    words = cli.pareto(sweep, "--method", "ngdiff", "--lr", "0.05", "--optimizer", "sgd", "--epochs", "1")
    command = ["uv", "run", sys.executable, "-m", "sweeper", *map(str, words)]
    given = {"cwd": tmp_path, "env": cli.environment, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    cli.finish(subprocess.Popen(command, executable=sys.executable, text=True, **given))
    assert [row["status"] for row in sweep.trials] == ["finished"]


def test_a_closed_terminal_leaves_a_report(cli: Cli) -> None:
    sweep = cli.new("hung-up")
    terminal, side = os.openpty()

    def watch() -> None:  # a terminal that is not read blocks its writers
        with contextlib.suppress(OSError):
            while os.read(terminal, 4096):
                pass

    threading.Thread(target=watch, daemon=True).start()
    process = begun(cli, sweep, stdin=side, stdout=side, stderr=side)
    os.close(side)
    os.kill(process.pid, signal.SIGHUP)  # the kernel sends it to the session that has the terminal
    assert process.wait(timeout=300) == 130
    assert parent_status(cli, sweep) == "KILLED"
    assert sweep.trials == [] or (sweep.out / "report.html").is_file()
