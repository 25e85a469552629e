"""Run docs/examples/slurm.sbatch without Slurm. Fake programs on PATH record their calls."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from sweeper.cli.main import main

SWEEP = "python -m sweeper"
SCRIPT = Path(__file__).parents[1] / "docs" / "examples" / "slurm.sbatch"
STAND_INS = {
    "scontrol": 'echo "scontrol $*" >> "$CALLS"; [ "$1" = show ] && printf "n1\\nn2\\nn3\\n"; exit 0',
    "srun": """
        echo "srun $*" >> "$CALLS"
        while [ "${1#--}" != "$1" ]; do shift; done
        exec "$@"
    """,
    # A node of the cluster; it runs until SIGTERM.
    "ray": """
        echo "ray $*" >> "$CALLS"
        [ "$1" = start ] || exit 0
        case "$*" in *--head*) touch "$UP";; *) echo x >> "$UP"; echo x >> "$UP";; esac
        trap 'kill $!; echo "ray ended" >> "$CALLS"; exit 0' TERM
        sleep 60 >/dev/null 2>&1 & wait
    """,
    # Prints the number of nodes, or runs the sweep, which ends with $CODE, or with 130 after SIGTERM.
    "python": """
        if [ "$1" = -c ]; then [ -e "$UP" ] && echo $((1 + $(wc -l < "$UP"))); exit 0; fi
        trap 'kill $!; echo "sweep got TERM" >> "$CALLS"; sleep 0.2; exit 130' TERM
        echo "python $*" >> "$CALLS"
        [ "$CODE" = runs ] && { sleep 60 >/dev/null 2>&1 & wait; }
        exit "$CODE"
    """,
    "hostname": 'echo "fe80::1 10.0.0.7 10.1.0.7"',
    "sleep": 'exec /bin/sleep "$([ "$1" = 3 ] && echo 0.05 || echo "$1")"',
}


@dataclass(frozen=True)
class Job:
    """The script as a Slurm job, and the calls that it made."""

    folder: Path
    environment: dict[str, str]

    def start(self, code: str, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", str(SCRIPT), *arguments],
            env={**self.environment, "CODE": code},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, code: str, *arguments: str) -> int:
        process = self.start(code, *arguments)
        process.communicate(timeout=120)
        return process.returncode

    @property
    def calls(self) -> list[str]:
        log = self.folder / "calls"
        return log.read_text().splitlines() if log.exists() else []

    def wait_for(self, condition: Callable[[list[str]], bool]) -> None:
        deadline = time.monotonic() + 120
        while not condition(self.calls):
            assert time.monotonic() < deadline, self.calls
            time.sleep(0.02)

    @property
    def is_requeued(self) -> bool:
        return "scontrol requeue 4321" in self.calls

    def replace_python(self, body: str) -> None:
        Path(self.environment["PATH"].partition(os.pathsep)[0], "python").write_text(f"#!/bin/bash\n{body}\n")


@pytest.fixture
def job(tmp_path: Path) -> Job:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, body in STAND_INS.items():
        (programs / name).write_text(f"#!/bin/bash\n{body}\n")
        (programs / name).chmod(0o755)
    environment = {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "CALLS": str(tmp_path / "calls"),
        "UP": str(tmp_path / "up"),
        "OUT": str(tmp_path / "out"),
        "SLURM_JOB_ID": "4321",
        "SLURM_JOB_NODELIST": "n[1-3]",
        "SLURM_CPUS_PER_TASK": "8",
        "PATIENCE": "40",
    }
    return Job(tmp_path, environment)


def test_the_job_requests_a_signal_and_allows_requeueing() -> None:
    options = {line.removeprefix("#SBATCH ") for line in SCRIPT.read_text().splitlines() if line.startswith("#SBATCH")}
    assert {"--signal=B:TERM@120", "--requeue", "--open-mode=append"} <= options


def test_ray_is_started_over_the_allocation_and_then_the_sweep(job: Job) -> None:
    assert job.run("0", "--method", "gdiff", "--trials", "64") == 0
    started = [call for call in job.calls if call.startswith(("srun", "python", "ray get"))]
    token, head, others, sweep = started
    address = "10.0.0.7:24321"
    assert token == "ray get-auth-token --generate"
    assert head.startswith("srun --nodes=1 --ntasks=1 --cpus-per-task=8 --nodelist=n1 ray start --head ")
    assert "--node-ip-address=10.0.0.7 --port=24321" in head
    assert others.startswith("srun --nodes=2 --ntasks=2 --cpus-per-task=8 --exclude=n1 ray start ")
    assert f"--address={address} --num-cpus=8" in others
    assert sweep == f"python -m sweeper pareto --method gdiff --trials 64 --address {address} --out {job.folder}/out"
    assert job.calls.count("ray ended") == 2
    assert not job.is_requeued
    # The command line is valid.
    name, *words = sweep.removeprefix("python -m sweeper ").split()
    main.commands[name].make_context(name, words)
    with pytest.raises(click.NoSuchOption):
        main.commands[name].make_context(name, [*words, "--no-such-option"])


def test_a_sweep_that_has_started_is_resumed(job: Job) -> None:
    (job.folder / "out").mkdir()
    (job.folder / "out" / "sweep.json").write_text("{}")
    assert job.run("0", "--method", "gdiff") == 0
    (sweep,) = [call for call in job.calls if call.startswith("python")]
    assert sweep == f"python -m sweeper resume {job.folder}/out --address 10.0.0.7:24321"


def stopped_after(job: Job, start: str) -> int:
    """Send SIGTERM to the script (``B:``) after the first call that begins with ``start``. Return the exit code."""
    process = job.start("runs")
    job.wait_for(lambda calls: any(call.startswith(start) for call in calls))
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)
    return process.returncode


def test_the_time_limit_ends_the_sweep_in_order_then_ray_and_the_job_is_queued_again(job: Job) -> None:
    assert stopped_after(job, SWEEP) == 130
    assert job.calls[-4:] == ["sweep got TERM", "ray ended", "ray ended", "scontrol requeue 4321"]


def test_a_limit_before_the_sweep_has_started_queues_it_again(job: Job) -> None:
    job.replace_python("exit 0")
    assert stopped_after(job, "ray start") == 130
    assert job.is_requeued
    assert not any(call.startswith(SWEEP) for call in job.calls)


@pytest.mark.parametrize("code", [0, 2, 130], ids=["done", "wrong usage", "stopped by its user"])
def test_a_sweep_that_ends_by_itself_is_not_queued_again(job: Job, code: int) -> None:
    assert job.run(str(code)) == code
    assert not job.is_requeued


def test_missing_nodes_are_counted_and_the_job_fails(job: Job) -> None:
    job.replace_python("echo 1")
    job.environment["PATIENCE"] = "5"
    process = job.start("0")
    assert re.search(r"\b3 nodes\b.*\b1\b", process.communicate(timeout=120)[1])
    assert process.returncode == 1
    assert not any(call.startswith(SWEEP) for call in job.calls)


def test_without_a_folder_for_the_sweep_nothing_is_started(job: Job) -> None:
    del job.environment["OUT"]
    process = job.start("0")
    assert "OUT" in process.communicate(timeout=120)[1]
    assert process.returncode != 0
    assert job.calls == []
