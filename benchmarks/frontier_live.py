"""Compare the default sweep with a sweep of whole trials, at equal numbers of epochs and at equal wall-clock time.

    python benchmarks/frontier_live.py [--seeds 0 1 2] [--arms before now] [--rows FILE.csv]
    python benchmarks/frontier_live.py --data tofu --tofu DIR_WITH_TOFUS_FILES
    python benchmarks/frontier_live.py --rows FILE.csv --table

Runs two sweeps per seed, one after the other, in alternating order. The arm ``before`` has 16 trials that run to the
end, and only their last epochs are candidates (``--scheduler none --candidates last``). The arm ``now`` is the default
with an ``--epoch-budget`` of as many epochs. The target is cached before the first sweep. Prints the hypervolume, the
trained epochs and the seconds. The data ``tofu`` are the first rows of TOFU's forget01 (``--limit 20``).
"""

from __future__ import annotations

import argparse
import csv
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

from analysis.frontier.frontier import hypervolume

TRIALS, EPOCHS = 16, 15
ARMS = {
    "before": ("--scheduler", "none", "--candidates", "last", "--trials", str(TRIALS)),
    "now": ("--epoch-budget", str(TRIALS * EPOCHS)),
}
COLUMNS = ("data", "seed", "arm", "hypervolume", "front", "trials", "epochs", "seconds", "course", "outcome", "date")
EVERY = 5
"""Seconds between two values of the column ``course``: the hypervolume by then, from the start of the command."""


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
        epochs = len(rows_of(out / "history.csv"))
        course = course_of(out, start, seconds, last_only=arm == "before")
    return {
        "arm": arm,
        "seed": seed,
        **{name: summary[name] for name in ("hypervolume", "front", "trials")},
        "epochs": epochs,
        "seconds": round(seconds, 1),
        "course": course,
        "outcome": summary["answer"]["outcome"],
        "date": time.strftime("%Y-%m-%d"),
    }


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def course_of(out: Path, start: float, seconds: float, *, last_only: bool) -> str:
    """Return the hypervolume at intervals of :data:`EVERY` seconds.

    Each value is for the epochs reported by then or, if ``last_only``, for the trials that ended by then.
    """
    found = json.loads((out / "pareto.json").read_text())
    (_, forget), (_, retain) = (item["bounds"] for item in found["objectives"])
    rows = rows_of(out / ("trials.csv" if last_only else "history.csv"))
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


def table(rows: list[dict[str, str]]) -> None:
    """Print the results of every sweep, and the median ratio of the two arms for each problem."""
    heads = [name for name in COLUMNS if name != "course"]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    pairs: defaultdict[tuple[str, str], dict[str, dict[str, str]]] = defaultdict(dict)
    for row in rows:
        shown = row | {"hypervolume": f"{float(row['hypervolume']):.4f}"}
        print(f"| {' | '.join(shown[name] for name in COLUMNS if name != 'course')} |")
        pairs[row["data"], row["seed"]][row["arm"]] = row
    for data in dict.fromkeys(data for data, _ in pairs):
        both = [pair for (of, _), pair in pairs.items() if of == data and ARMS.keys() <= pair.keys()]
        timed = [pair for pair in both if pair["now"]["seconds"] and pair["before"]["seconds"]]
        if both:
            gained = median(float(pair["now"]["hypervolume"]) - float(pair["before"]["hypervolume"]) for pair in both)
            print(f"{data}: hypervolume now - before {gained:+.4f}")
        for pair in timed:
            before, now = ([float(value) for value in pair[arm].get("course", "").split()] for arm in ("before", "now"))
            if not (before and now):
                continue
            name, at = f"{data}, seed {pair['now']['seed']}", min(len(before), len(now))
            halves = (
                f"{count * EVERY} s: {before[count - 1]:.4f}, {now[count - 1]:.4f}"
                for count in sorted({at // 2, at} - {0})
            )
            print(f"{name}, before and now after {'; after '.join(halves)}")
            least = min(before[-1], now[-1])
            first, second = (next(n for n, value in enumerate(of, 1) if value >= least) for of in (before, now))
            print(f"{name}, the lesser end's hypervolume: before after {first * EVERY} s, now after {second * EVERY} s")
        if timed:
            ratio = median(float(pair["now"]["seconds"]) / float(pair["before"]["seconds"]) for pair in timed)
            print(f"{data}: seconds now / before {ratio:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=list(ARMS))
    parser.add_argument("--rows", type=Path, default=Path("runs/frontier_live.csv"))
    parser.add_argument("--data", choices=("authors", "tofu"), default="authors")
    parser.add_argument("--tofu", type=Path, help="Folder with TOFU's files, for --data tofu.")
    parser.add_argument("--table", action="store_true", help="Print what the rows say and run nothing.")
    given = parser.parse_args()
    problem = ["--model", "tiny-phi"]
    if given.data == "tofu":
        problem += ["--dataset", "tofu", "--forget-split", "forget01", "--limit", "20"]
        problem += ["--data-dir", os.path.abspath(given.tofu)]
    known: list[dict[str, str]] = []
    if given.rows.is_file():
        with given.rows.open(newline="") as file:
            known = list(csv.DictReader(file))
    if not given.table:
        subprocess.run([sys.executable, "-m", "sweeper", "target", *problem], check=True, capture_output=True)
        given.rows.parent.mkdir(parents=True, exist_ok=True)
        done = {(row["data"], row["seed"], row["arm"]) for row in known}
        for number, seed in enumerate(given.seeds):
            for arm in given.arms[:: 1 if number % 2 == 0 else -1]:
                if (given.data, str(seed), arm) in done:
                    continue
                known.append(
                    {name: str(value) for name, value in ({"data": given.data} | sweep(arm, seed, problem)).items()}
                )
                with given.rows.open("w", newline="") as file:
                    writer = csv.DictWriter(file, COLUMNS)
                    writer.writeheader()
                    writer.writerows(known)
    table(known)


if __name__ == "__main__":
    main()
