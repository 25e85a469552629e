"""How long does the default sweep take without a cache? python benchmarks/demo_time.py

Runs ``python -m sweeper pareto`` with an empty cache, so the time includes the fine-tuning of the target. Prints the
wall-clock seconds of each phase.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from start_time import timed_sweep

PHASES = (
    "until the first trial (imports, target, Ray)",
    "of trials",
    "after the last trial (metrics, report, MLflow)",
)


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        started, ended, rows = timed_sweep(Path(scratch), "out", ["pareto"])
    first = min(float(row["started_at"]) for row in rows)
    last = max(float(row["ended_at"]) for row in rows)
    for name, seconds in zip(PHASES, (first - started, last - first, ended - last), strict=True):
        print(f"{seconds:8.1f} s {name}")
    print(f"{ended - started:8.1f} s in all, {len(rows)} trials")


if __name__ == "__main__":
    main()
