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


def sweep(arm: str, seed: int, problem: list[str]) -> dict[str, object]:
    """Run one sweep in a new folder."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "sweeper", "pareto", *problem, "--epochs", str(EPOCHS), "--seed", str(seed)]
        began, start = time.perf_counter(), time.time()
        done = subprocess.run(
            [*command, *ARMS[arm], "--out", "sweep", "--json"], cwd=folder, capture_output=True, text=True, check=True
        )
        seconds = time.perf_counter() - began
        summary = json.loads(done.stdout.splitlines()[-1])
        out = Path(folder) / "sweep"
        epochs = len(read_rows(out / "history.csv"))
        course = course_of(out, start, seconds, last_only=arm == "before")
    return {
        **{name: summary[name] for name in ("hypervolume", "front", "trials")},
        "epochs": epochs,
        "seconds": round(seconds, 1),
        "course": course,
        "outcome": summary["answer"]["outcome"],
        "date": time.strftime("%Y-%m-%d"),
    }


def course_of(out: Path, start: float, seconds: float, *, last_only: bool) -> str:
    """Return the hypervolume at intervals of :data:`EVERY` seconds.

    Each value is the hypervolume of all epochs reported so far or, if ``last_only``, of all trials that ended so far.
    """
    found = json.loads((out / "pareto.json").read_text())
    (_, forget), (_, retain) = (item["bounds"] for item in found["objectives"])
    rows = read_rows(out / ("trials.csv" if last_only else "history.csv"))
    points = [
        (
            float(row["ended_at" if last_only else "reported_at"]) - start,
            1 - float(row["forget_loss_capped"]) / forget,
            min(float(row["retain_loss"]) / retain, 1.0),
        )
        for row in rows
        if row["forget_loss_capped"] and row["retain_loss"]
    ]
    times = range(EVERY, int(seconds) + EVERY, EVERY)
    known = ([costs for when, *costs in points if when <= at] for at in times)
    return " ".join(f"{hypervolume(np.asarray(costs)) if costs else 0.0:.4f}" for costs in known)


def table(rows: list[Row]) -> None:
    """Print all results, the medians, and when each arm reached the smaller of the two final hypervolumes."""
    shown = [row | {"hypervolume": f"{float(row['hypervolume']):.4f}"} for row in rows]
    heads = [name for name in COLUMNS if name != "course"]
    print_table(heads, ([row[name] for name in heads] for row in shown))
    pairs: defaultdict[tuple[str, str], dict[str, Row]] = defaultdict(dict)
    for row in rows:
        pairs[row["data"], row["seed"]][row["arm"]] = row
    for data in dict.fromkeys(row["data"] for row in rows):
        both = [pair for (of, _), pair in pairs.items() if of == data and ARMS.keys() <= pair.keys()]
        for pair in both:
            courses = [[float(value) for value in pair[arm]["course"].split()] for arm in ARMS]
            least = min(course[-1] for course in courses)
            first, second = (next(n for n, value in enumerate(course, 1) if value >= least) for course in courses)
            print(
                f"{data}, seed {pair['now']['seed']}: the smaller final hypervolume was reached after "
                f"{first * EVERY} s in arm 'before' and after {second * EVERY} s in arm 'now'"
            )
        if both:
            gained = median(float(pair["now"]["hypervolume"]) - float(pair["before"]["hypervolume"]) for pair in both)
            ratio = median(float(pair["now"]["seconds"]) / float(pair["before"]["seconds"]) for pair in both)
            print(f"{data}, medians of now against before: hypervolume {gained:+.4f}, seconds x {ratio:.2f}")


def main() -> None:
    parser = study_parser(__doc__, Path("runs/frontier_live.csv"))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--data", choices=("authors", "tofu"), default="authors")
    parser.add_argument("--tofu", type=Path, help="Folder with TOFU's files, for --data tofu.")
    given = parser.parse_args()
    problem = ["--model", "tiny-phi"]
    if given.data == "tofu":
        problem += ["--dataset", "tofu", "--forget-split", "forget01", "--limit", "20"]
        problem += ["--data-dir", os.path.abspath(given.tofu)]
    if not given.table:
        subprocess.run([sys.executable, "-m", "sweeper", "target", *problem], check=True, capture_output=True)
        pairs = [(seed, arm) for place, seed in enumerate(given.seeds) for arm in list(ARMS)[:: (-1) ** place]]
        jobs = ((given.data, seed, arm) for seed, arm in pairs)
        run_missing(given.rows, (KEY, COLUMNS), jobs, lambda _, seed, arm: [sweep(arm, seed, problem)])
    table(read_rows(given.rows))


if __name__ == "__main__":
    main()
