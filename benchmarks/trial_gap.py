"""How long does a worker wait between two trials? Computed from the times in trials.csv.

    python benchmarks/trial_gap.py runs/SOME-SWEEP

A row of trials.csv has the worker of a trial, and the times of its first step and its end. The gap of a warm worker is
the time from the end of a trial to the first step of the next trial. The cold start of a worker is the time from the
start of its first trial to the first step of this trial, including imports and loading.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import statistics
from pathlib import Path


def gaps(rows: list[dict[str, str]]) -> tuple[list[float], list[float]]:
    """Return ``(warm, cold)`` in seconds."""
    workers: dict[str, list[tuple[float, float, float]]] = {}
    for row in rows:
        if row["first_step_at"]:
            times = (float(row["started_at"]), float(row["first_step_at"]), float(row["ended_at"]))
            workers.setdefault(row["worker"], []).append(times)
    warm, cold = [], []
    for trials in workers.values():
        trials.sort()
        cold.append(trials[0][1] - trials[0][0])
        warm += [after[1] - before[2] for before, after in itertools.pairwise(trials)]
    return warm, cold


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    with (parser.parse_args().folder / "trials.csv").open(newline="") as file:
        warm, cold = gaps(list(csv.DictReader(file)))
    if not warm:
        print("no worker ran two trials: nothing to measure")
        return
    print(f"warm worker, end of a trial to the next one's first step: {len(warm)} gaps")
    print(f"    median {statistics.median(warm):.3f} s, largest {max(warm):.3f} s")
    print(f"cold worker, taking its first trial to the first step: median {statistics.median(cold):.2f} s")


if __name__ == "__main__":
    main()
