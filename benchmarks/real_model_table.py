"""Print the runs of the pretrained model in docs/results.md as a table with a row per arm.

    python benchmarks/real_model_table.py S101 S102 ... --csv docs/data/real_model_study.csv   # collect, then print
    python benchmarks/real_model_table.py                                                      # print collected rows

A run succeeds if verbmem is below 0.1 and utility is at least 70% of the target's utility, which is 1. A run collapses
(column ``ruined``) if utility is below 70%.
"""

from __future__ import annotations

import argparse
import csv
import statistics
from collections import defaultdict
from pathlib import Path

from study_rows import Row, print_table, read_rows

ROWS = Path("docs/data/real_model_study.csv")
EXCLUDED_COLUMNS = {
    *("checkpoint", "worker", "model_path", "data_dir", "target_path", "reused_from"),
    *("started_at", "first_step_at", "ended_at"),
}
"""Columns that depend on the machine or the time of a run."""

Arm = tuple[str, str, float]
"""Method, ``off`` or ``on``, learning rate."""


def collect(sweeps: list[Path], path: Path) -> None:
    """Write the trials of all sweeps as one table."""
    rows = [row for sweep in sweeps for row in read_rows(sweep / "trials.csv")]
    columns = [name for name in rows[0] if name not in EXCLUDED_COLUMNS and any(row.get(name) for row in rows)]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def arm_of(row: Row) -> Arm:
    return row["method"], row["auto_lr"], float(row["lr"])


def name_of(arm: Arm) -> tuple[str, str]:
    """Return the method and the rate as text."""
    return arm[0], f"{'AutoLR from ' if arm[1] == 'on' else ''}{arm[2]:g}"


def scores(row: Row) -> tuple[float, float]:
    """Return verbmem and utility. A diverged run has a utility of 0."""
    return float(row["verbmem"] or 0.0), float(row["utility"] or 0.0)


def draw(rows: list[Row], seeds: set[int], path: Path) -> None:
    """Draw utility over verbmem for every run on these seeds. Each panel is a method; the box shows the thresholds."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.patches import Rectangle

    methods = sorted({row["method"] for row in rows})
    figure, panels = plt.subplots(1, len(methods), figsize=(9, 4), sharex=True, sharey=True, layout="constrained")
    for panel, method in zip(panels, methods, strict=True):
        panel.add_patch(Rectangle((-0.05, 0.7), 0.15, 0.4, color="#e8f3e8", zorder=0))
        method_rows = [row for row in rows if row["method"] == method and int(row["seed"]) in seeds]
        rates = sorted({float(row["lr"]) for row in method_rows if row["auto_lr"] == "off"})
        for index, rate in enumerate(rates):
            points = [scores(row) for row in method_rows if row["auto_lr"] == "off" and float(row["lr"]) == rate]
            shade = mpl.colormaps["Blues"](0.3 + 0.6 * index / max(1, len(rates) - 1))
            panel.scatter(
                *zip(*points, strict=True), color=shade, edgecolor="#444", linewidth=0.5, label=f"lr {rate:g}"
            )
        points = [scores(row) for row in method_rows if row["auto_lr"] == "on"]
        panel.scatter(*zip(*points, strict=True), marker="x", color="#c03028", label="AutoLR", zorder=3)
        panel.set(title=method, xlabel="verbmem (0: forgotten)", xlim=(-0.05, 1.05), ylim=(-0.05, 1.05))
    panels[0].set_ylabel("utility (1: all kept)")
    panels[-1].legend(loc="center right", fontsize=8)
    figure.savefig(path, dpi=120, metadata={"Software": None})


def print_by_arm(rows: list[Row], seeds: set[int]) -> None:
    """Print the results of each arm on these seeds, including the worst run."""
    runs: defaultdict[Arm, list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        if int(row["seed"]) in seeds:
            runs[arm_of(row)].append(scores(row))
    table_rows = []
    for arm in sorted(runs):
        verbmem, utility = ([run[index] for run in runs[arm]] for index in (0, 1))
        successes = sum(v < 0.1 and u >= 0.7 for v, u in runs[arm])
        collapses = sum(u < 0.7 for u in utility)
        values = (statistics.fmean(utility), min(utility), statistics.fmean(verbmem), max(verbmem))
        cells = (
            f"{successes} of {len(utility)}",
            f"{collapses} of {len(utility)}",
            *(f"{value:.2f}" for value in values),
        )
        table_rows.append((*name_of(arm), *cells))
    head = ("method", "rate", "succeeded", "ruined", "utility: mean", "worst", "verbmem: mean", "worst")
    print_table(head, table_rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweeps", nargs="*", type=Path, help="Folders of lr-study.")
    parser.add_argument("--csv", type=Path, default=ROWS)
    parser.add_argument("--fresh", nargs="+", type=int, default=[*range(103, 111)])
    parser.add_argument("--figure", type=Path, help="Draw the runs on the --fresh seeds into this file.")
    args = parser.parse_args()
    if args.sweeps:
        collect(args.sweeps, args.csv)
    rows = read_rows(args.csv)
    print_by_arm(rows, set(args.fresh))
    if args.figure:
        draw(rows, set(args.fresh), args.figure)


if __name__ == "__main__":
    main()
