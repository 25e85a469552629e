"""How long does a user wait for the first step of a sweep, and for the prompt after the last trial?

    python benchmarks/start_time.py [--rounds 3]

Runs sweeps of two trials of one epoch with a cached target. Sweeps with forked workers (the default) alternate with
sweeps with ``SWEEPER_FORK_WORKERS=0``, in which each worker is a new Python process. Times are measured from the start
of the command. The times of steps and trials are read from trials.csv.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from study_rows import Row, read_rows

from sweeper.execution.fork_server import VARIABLE

COMMAND = [
    *("pareto", "--sampler", "grid", "--method", "gdiff", "--c", "0.5"),
    *("--lr", "1e-4", "--lr", "3e-4", "--epochs", "1"),
]
SIDES: dict[str, dict[str, str]] = {"forked": {}, "new": {VARIABLE: "0"}}
COLUMNS = ("to the first step", "from the last trial to the prompt", "in all")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    times: dict[str, list[tuple[float, ...]]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory() as scratch:
        timed_sweep(Path(scratch), "warm", COMMAND)  # fine-tunes the target
        for number in range(rounds):
            for side, variables in SIDES.items():
                times[side].append(spans := phases(*timed_sweep(Path(scratch), f"{side}-{number}", COMMAND, variables)))
                print(f"{side:8}", *(f"{value:.1f} s {name};" for name, value in zip(COLUMNS, spans, strict=True)))
    print(f"\n{'median':36}{'forked':>8}{'new':>10}{'ratio':>8}")
    for index, name in enumerate(COLUMNS):
        forked, new = (statistics.median(row[index] for row in times[side]) for side in SIDES)
        print(f"{name:36}{forked:6.1f} s{new:8.1f} s{new / forked:8.2f}")


def phases(started: float, ended: float, rows: list[Row]) -> tuple[float, ...]:
    """Return the seconds in :data:`COLUMNS`."""
    assert [row["status"] for row in rows] == ["finished"] * 2
    first = min(float(row["first_step_at"]) for row in rows)
    last = max(float(row["ended_at"]) for row in rows)
    return first - started, ended - last, ended - started


def timed_sweep(
    scratch: Path, name: str, command: list[str], variables: dict[str, str] | None = None
) -> tuple[float, float, list[Row]]:
    """Run a sweep with the cache in ``scratch``. Return when the command started and ended, and the trials' rows."""
    out = scratch / name
    output_options = ["--out", str(out), "--tracking-uri", f"sqlite:///{scratch}/{name}.db"]
    environment = os.environ | {"XDG_CACHE_HOME": str(scratch / "cache")} | (variables or {})
    started = time.time()
    subprocess.run(
        [sys.executable, "-m", "sweeper", *command, *output_options], check=True, env=environment, capture_output=True
    )
    return started, time.time(), read_rows(out / "trials.csv")


if __name__ == "__main__":
    main()
