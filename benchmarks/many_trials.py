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
    parser.add_argument("options", nargs="*", metavar="OPTION", help="options of the sweep, after --")
    args = parser.parse_args()
    with TemporaryDirectory() as scratch:
        out = args.out or Path(scratch) / "out"
        memory = run(out, scratch, args.trials, args.options)
        rows = sorted(read_rows(out / "trials.csv"), key=lambda row: float(row["ended_at"]))
    table(rows, memory)


def run(out: Path, scratch: str, trials: int, options: list[str]) -> list[tuple[float, int]]:
    """Run the sweep. Return pairs (time of day, resident bytes of the driver), measured once a second."""
    command = [sys.executable, "-m", "sweeper", "pareto", "--sampler", "random", "--trials", str(trials)]
    command += ["--out", str(out), "--tracking-uri", f"sqlite:///{scratch}/mlflow.db", "--scheduler", "none"]
    command += ["--max-steps", "1", "--epochs", "1", "--metrics", "retain_loss", "--loss-examples", "8"]
    command += ["--max-concurrent", str(WORKERS), *options]
    memory: list[tuple[float, int]] = []
    with subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"}) as process:
        status = Path(f"/proc/{process.pid}/status")
        while process.poll() is None:
            if match := re.search(r"VmRSS:\s+(\d+) kB", status.read_text()):
                memory.append((time.time(), 1024 * int(match[1])))
            time.sleep(1)
    if process.returncode:
        sys.exit(process.returncode)
    return memory


def table(rows: list[dict[str, str]], memory: list[tuple[float, int]]) -> None:
    """Print a line for each tenth of the sweep. The first tenth includes the cold starts of the workers."""
    print(f"{len(rows)} trials, {WORKERS} at a time")
    print(f"{'trials':>12} {'per trial':>10} {'in the worker':>14} {'the rest':>10} {'memory':>10}")
    previous_end = float(rows[0]["started_at"])
    for tenth in range(10):
        first, last = len(rows) * tenth // 10, len(rows) * (tenth + 1) // 10
        tenth_rows = rows[first:last]
        end = float(tenth_rows[-1]["ended_at"])
        seconds_per_trial = (end - previous_end) / len(tenth_rows)
        worker_seconds = sum(float(row["wall_seconds"]) for row in tenth_rows) / len(tenth_rows)
        memory_so_far = [resident for when, resident in memory if when <= end]
        seconds = (
            f"{seconds_per_trial:8.3f} s {worker_seconds:12.3f} s {WORKERS * seconds_per_trial - worker_seconds:8.3f} s"
        )
        print(f"{first:5d} - {last:4d} {seconds} {memory_so_far[-1] / 1e6:7.0f} MB", flush=True)
        previous_end = end


if __name__ == "__main__":
    main()
