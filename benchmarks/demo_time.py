"""How long does the default sweep take without a cache?

    python benchmarks/demo_time.py [OUT]

Runs ``python -m sweeper pareto`` with an empty cache, so the target is fine-tuned, too. Prints the wall-clock seconds
of each phase and the ratio of the seconds of all trials to the wall-clock seconds.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(scratch) / "out"
        environment = os.environ | {"XDG_CACHE_HOME": str(Path(scratch) / "cache")}
        command = [sys.executable, "-m", "sweeper", "pareto", "--out", str(out)]
        command += ["--tracking-uri", f"sqlite:///{scratch}/mlflow.db"]
        started = time.time()
        subprocess.run(command, check=True, env=environment)
        wall = time.time() - started
        with (out / "trials.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
    busy = sum(float(row["wall_seconds"]) for row in rows)
    first = min(float(row["started_at"]) for row in rows) - started
    last = max(float(row["ended_at"]) for row in rows) - started
    print(f"{len(rows)} trials in {wall:.1f} s")
    print(f"    {first:6.1f} s until the first trial (imports, target, Ray)")
    print(f"    {last - first:6.1f} s of trials, {busy:.1f} trial-seconds: {busy / (last - first):.2f} at once")
    print(f"    {wall - last:6.1f} s after the last one (tables, report, MLflow)")
    print(f"trial-seconds per wall second: {busy / wall:.2f}")


if __name__ == "__main__":
    main()
