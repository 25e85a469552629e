"""How long does the default sweep take without a cache, here and in another checkout?

    python benchmarks/demo_time.py [--other CHECKOUT] [--rounds 1]

Runs ``python -m sweeper pareto`` with an empty cache, so the time includes the fine-tuning of the target. With
``--other``, the sweeps of this checkout and of another checkout run in turns, with the same Python. Prints the
wall-clock seconds of each phase, and the ratio of the two totals.
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

from study_rows import read_rows

COLUMNS = (
    "until the first trial (imports, target, Ray)",
    "of trials",
    "after the last trial (metrics, report, MLflow)",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--other", type=Path)
    parser.add_argument("--rounds", type=int, default=1)
    chosen = parser.parse_args()
    sides = {"this": Path(__file__).parents[1]} | ({"other": chosen.other.resolve()} if chosen.other else {})
    times: dict[str, list[tuple[float, ...]]] = {side: [] for side in sides}
    for number in range(chosen.rounds):
        for side, checkout in sides.items():
            times[side].append(found := demo(checkout))
            print(f"round {number + 1}, {side}: {sum(found):.1f} s", flush=True)
    medians = {side: [statistics.median(column) for column in zip(*rows, strict=True)] for side, rows in times.items()}
    for place, name in enumerate(COLUMNS):
        print(*(f"{medians[side][place]:8.1f} s" for side in sides), name)
    if chosen.other:
        totals = [statistics.median(map(sum, times[side])) for side in sides]
        print(f"time of this checkout / time of the other: {totals[0] / totals[1]:.2f}")


def demo(checkout: Path) -> tuple[float, ...]:
    """Run the default sweep of a checkout and return the seconds in :data:`COLUMNS`."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "out"
        environment = os.environ | {"XDG_CACHE_HOME": f"{scratch}/cache", "PYTHONPATH": str(checkout)}
        command = [sys.executable, "-m", "sweeper", "pareto", "--out", str(out)]
        command += ["--tracking-uri", f"sqlite:///{scratch}/mlflow.db"]
        started = time.time()
        subprocess.run(command, check=True, env=environment, cwd=scratch, capture_output=True)
        ended = time.time()
        rows = read_rows(out / "trials.csv")
    first = min(float(row["started_at"]) for row in rows)
    last = max(float(row["ended_at"]) for row in rows)
    return first - started, last - first, ended - last


if __name__ == "__main__":
    main()
