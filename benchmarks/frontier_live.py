"""Compare the default sweep with a sweep without early stopping, at equal epochs and at equal wall-clock time.

    python benchmarks/frontier_live.py [--seeds 0 1 2] [--rows FILE.csv]
    python benchmarks/frontier_live.py --data tofu --tofu DIR_WITH_TOFUS_FILES
    python benchmarks/frontier_live.py --rows FILE.csv --table

Runs two sweeps per seed, one after the other, in alternating order. The arm ``before`` has 16 trials that run to the
end, and only their last epochs are candidates (``--scheduler none --candidates last``). The arm ``now`` is the default
sweep, in which ``--epoch-budget`` is the same number of epochs. The target is cached before the first sweep. Prints the
hypervolume, the trained epochs and the seconds. The data ``tofu`` are TOFU's forget01 with ``--limit 20``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import median

import numpy as np
from study_rows import Row, print_table, read_rows, run_missing, study_parser

from analysis.frontier.frontier import hypervolume

TRIALS, EPOCHS = 16, 15
ARMS = {
    "before": ("--scheduler", "none", "--candidates", "last", "--trials", str(TRIALS)),
    "now": ("--epoch-budget", str(TRIALS * EPOCHS)),
}
KEY = ("data", "seed", "arm")
COLUMNS = (*KEY, "hypervolume", "front", "trials", "epochs", "seconds", "course", "outcome", "date")
EVERY = 5
"""The seconds between two values of the column ``course`` (the hypervolume over the time since the command's start)."""


def sweep(arm: str, seed: int, options: list[str]) -> dict[str, object]:
    """Run one sweep in a new folder."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "sweeper", "pareto", *options, "--epochs", str(EPOCHS), "--seed", str(seed)]
        started, started_at = time.perf_counter(), time.time()
        completed = subprocess.run(
            [*command, *ARMS[arm], "--out", "sweep", "--json"], cwd=folder, capture_output=True, text=True, check=True
        )
        seconds = time.perf_counter() - started
        summary = json.loads(completed.stdout.splitlines()[-1])
        out = Path(folder) / "sweep"
        epochs = len(read_rows(out / "history.csv"))
        course = hypervolume_over_time(out, started_at, seconds, last_only=arm == "before")
    return {
        **{name: summary[name] for name in ("hypervolume", "front", "trials")},
        "epochs": epochs,
        "seconds": round(seconds, 1),
        "course": course,
        "outcome": summary["answer"]["outcome"],
        "date": time.strftime("%Y-%m-%d"),
    }


def hypervolume_over_time(out: Path, started_at: float, seconds: float, *, last_only: bool) -> str:
    """Return the hypervolume at intervals of :data:`EVERY` seconds.

    Each value is the hypervolume of all epochs reported so far or, if ``last_only``, of all trials that ended so far.
    """
    pareto = json.loads((out / "pareto.json").read_text())
    (_, forget), (_, retain) = (item["bounds"] for item in pareto["objectives"])
    rows = read_rows(out / ("trials.csv" if last_only else "history.csv"))
    points = [
        (
            float(row["ended_at" if last_only else "reported_at"]) - started_at,
            1 - float(row["forget_loss_capped"]) / forget,
            min(float(row["retain_loss"]) / retain, 1.0),
        )
        for row in rows
        if row["forget_loss_capped"] and row["retain_loss"]
    ]
    times = range(EVERY, int(seconds) + EVERY, EVERY)
    costs_by_time = ([costs for when, *costs in points if when <= time_limit] for time_limit in times)
    return " ".join(f"{hypervolume(np.asarray(costs)) if costs else 0.0:.4f}" for costs in costs_by_time)


def table(rows: list[Row]) -> None:
    """Print all results, the medians, and when each arm reached the smaller of the two final hypervolumes."""
    formatted_rows = [row | {"hypervolume": f"{float(row['hypervolume']):.4f}"} for row in rows]
    columns = [name for name in COLUMNS if name != "course"]
    print_table(columns, ([row[name] for name in columns] for row in formatted_rows))
    pairs: defaultdict[tuple[str, str], dict[str, Row]] = defaultdict(dict)
    for row in rows:
        pairs[row["data"], row["seed"]][row["arm"]] = row
    for data in dict.fromkeys(row["data"] for row in rows):
        complete_pairs = [
            pair for (dataset, _), pair in pairs.items() if dataset == data and ARMS.keys() <= pair.keys()
        ]
        for pair in complete_pairs:
            courses = [[float(value) for value in pair[arm]["course"].split()] for arm in ARMS]
            threshold = min(course[-1] for course in courses)
            before, now = (next(n for n, value in enumerate(course, 1) if value >= threshold) for course in courses)
            print(
                f"{data}, seed {pair['now']['seed']}: the smaller final hypervolume was reached after "
                f"{before * EVERY} s in arm 'before' and after {now * EVERY} s in arm 'now'"
            )
        if complete_pairs:
            gain = median(
                float(pair["now"]["hypervolume"]) - float(pair["before"]["hypervolume"]) for pair in complete_pairs
            )
            ratio = median(float(pair["now"]["seconds"]) / float(pair["before"]["seconds"]) for pair in complete_pairs)
            print(f"{data}, medians of now against before: hypervolume {gain:+.4f}, seconds x {ratio:.2f}")


def main() -> None:
    parser = study_parser(__doc__, Path("runs/frontier_live.csv"))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--data", choices=("authors", "tofu"), default="authors")
    parser.add_argument("--tofu", type=Path, help="Folder with TOFU's files, for --data tofu.")
    args = parser.parse_args()
    options = ["--model", "tiny-phi"]
    if args.data == "tofu":
        options += ["--dataset", "tofu", "--forget-split", "forget01", "--limit", "20"]
        options += ["--data-dir", os.path.abspath(args.tofu)]
    if not args.table:
        subprocess.run([sys.executable, "-m", "sweeper", "target", *options], check=True, capture_output=True)
        pairs = [(seed, arm) for index, seed in enumerate(args.seeds) for arm in list(ARMS)[:: (-1) ** index]]
        jobs = ((args.data, seed, arm) for seed, arm in pairs)
        run_missing(args.rows, (KEY, COLUMNS), jobs, lambda _, seed, arm: [sweep(arm, seed, options)])
    table(read_rows(args.rows))


if __name__ == "__main__":
    main()
