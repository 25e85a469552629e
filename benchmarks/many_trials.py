"""Do the time per trial and the driver's memory grow in a sweep of a thousand trials?

    python benchmarks/many_trials.py [--trials 1000] [--out DIR] [-- OPTION ...]

Runs ``python -m sweeper pareto --sampler random`` with trials of one step and one evaluation of eight questions, and
reads the resident memory of the driver. For each tenth of the sweep, the script prints the seconds per trial and the
driver's memory. It also prints the seconds in which workers trained, evaluated and wrote checkpoints, and the remaining
seconds (sampler, tables, Ray and tracking). The options after ``--`` are passed to the sweep.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from study_rows import read_rows

WORKERS = 2


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--out", type=Path)
    parser.add_argument("further", nargs="*", metavar="OPTION", help="options of the sweep, after --")
    given = parser.parse_args()
    with TemporaryDirectory() as scratch:
        out = given.out or Path(scratch) / "out"
        memory = run(out, scratch, given.trials, given.further)
        rows = sorted(read_rows(out / "trials.csv"), key=lambda row: float(row["ended_at"]))
    table(rows, memory)


def run(out: Path, scratch: str, trials: int, further: list[str]) -> list[tuple[float, int]]:
    """Run the sweep. Return pairs (time of day, resident bytes of the driver), measured once a second."""
    command = [sys.executable, "-m", "sweeper", "pareto", "--sampler", "random", "--trials", str(trials)]
    command += ["--out", str(out), "--tracking-uri", f"sqlite:///{scratch}/mlflow.db", "--scheduler", "none"]
    command += ["--max-steps", "1", "--epochs", "1", "--metrics", "retain_loss", "--loss-examples", "8"]
    command += ["--max-concurrent", str(WORKERS), *further]
    memory: list[tuple[float, int]] = []
    with subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"}) as process:
        status = Path(f"/proc/{process.pid}/status")
        while process.poll() is None:
            if found := re.search(r"VmRSS:\s+(\d+) kB", status.read_text()):
                memory.append((time.time(), 1024 * int(found[1])))
            time.sleep(1)
    if process.returncode:
        sys.exit(process.returncode)
    return memory


def table(rows: list[dict[str, str]], memory: list[tuple[float, int]]) -> None:
    """Print a line for each tenth of the sweep. The first tenth includes the cold starts of the workers."""
    print(f"{len(rows)} trials, {WORKERS} at a time")
    print(f"{'trials':>12} {'per trial':>10} {'in the worker':>14} {'the rest':>10} {'memory':>10}")
    began = float(rows[0]["started_at"])
    for tenth in range(10):
        first, last = len(rows) * tenth // 10, len(rows) * (tenth + 1) // 10
        part = rows[first:last]
        ended = float(part[-1]["ended_at"])
        each = (ended - began) / len(part)
        busy = sum(float(row["wall_seconds"]) for row in part) / len(part)
        seen = [used for at, used in memory if at <= ended]
        seconds = f"{each:8.3f} s {busy:12.3f} s {WORKERS * each - busy:8.3f} s"
        print(f"{first:5d} - {last:4d} {seconds} {seen[-1] / 1e6:7.0f} MB", flush=True)
        began = ended


if __name__ == "__main__":
    main()
