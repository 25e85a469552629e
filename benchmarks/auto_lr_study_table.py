"""Print the rows of ``benchmarks/auto_lr_study.py`` as Markdown tables and draw them.

    python benchmarks/auto_lr_study_table.py runs/auto_lr_study.csv --picture FILE.png

The value of a run is the hypervolume of its one point, (L_F capped at the random guess / ln|V|) (1 - L_R / ln|V|), and
0 if it diverged. A rule is scored by the mean and the worst value over all starting rates, beside the expected best of
n random fixed rates (exact; selected on the seeds on which it is reported, which favours it).
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import matplotlib
import pandas as pd

from analysis.study.tuning_curve import expected_best
from trainables.models.tiny import VOCABULARY

SHOWN = ("search/freshx4", "paper/freshx4", "clip/fresh", "paper/same", "official/fresh")
COLOURS = dict(zip(SHOWN, ("#0072b2", "#56b4e9", "#e69f00", "#d55e00", "#009e73"), strict=True))


def values(path: Path) -> pd.DataFrame:
    """Return the rows with their ``value``."""
    rows = pd.read_csv(path)
    guess = math.log(VOCABULARY)
    forgotten = rows["forget_loss_capped"].clip(upper=guess) / guess
    kept = 1.0 - rows["retain_loss"].clip(upper=guess) / guess
    rows["value"] = (forgotten * kept).where(rows["status"] == "finished", 0.0)
    return rows


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Return, per size, method and rule, the mean over seeds with mean, worst and spread over starts, and the best
    fixed rate.
    """
    per_rate = rows.groupby(["size", "method", "rule", "lr"])["value"].mean()
    fixed = per_rate.xs("fixed", level="rule").groupby(["size", "method"]).max().rename("best fixed")
    rules = per_rate.drop("fixed", level="rule").groupby(["size", "method", "rule"]).agg(["mean", "min", "max"])
    table = rules.join(fixed, on=["size", "method"])
    table["spread"] = table["max"] - table["min"]
    return table


def markdown(table: pd.DataFrame, rows: pd.DataFrame) -> str:
    """Return, per size, a line per rule, best first, beside the best of n fixed rates; then the methods one by one."""
    lines = []
    for size, part in table.groupby(level="size", sort=False):
        overall = part.groupby("rule").agg(mean=("mean", "mean"), worst=("min", "min"), spread=("spread", "mean"))
        seeds = rows[rows["size"] == size].groupby("rule")["seed"].nunique()
        fixed = rows[(rows["size"] == size) & (rows["rule"] == "fixed")]
        per_rate = fixed.groupby(["method", "lr"])["value"].mean()
        curves = [expected_best(values.to_numpy()) for _, values in per_rate.groupby("method")]
        picks = [sum(column) / len(curves) for column in zip(*curves, strict=True)]
        lines += ["", f"| {size} | mean value | worst start | spread over starts | seeds |", "|---|---|---|---|---|"]
        for name, row in overall.sort_values("mean", ascending=False).iterrows():
            shown = f"{row['mean']:.3f} | {row['worst']:.3f} | {row['spread']:.3f}"
            lines.append(f"| {name} | {shown} | {seeds[str(name)]} |")
        for n in (1, 2, 3, len(picks)):
            name = "the best of all fixed rates" if n == len(picks) else f"the best of {n} fixed rates picked at random"
            lines.append(f"| {name} | {picks[n - 1]:.3f} | | | {seeds['fixed']} |")
    lines += [
        "",
        "| size | method | best fixed lr | " + " | ".join(SHOWN) + " |",
        "|---|---|---|" + "---|" * len(SHOWN),
    ]
    for place, group in table.groupby(level=["size", "method"], sort=False):
        cells = []
        for rule in SHOWN:
            found = group[group.index.get_level_values("rule") == rule]
            cells.append(f"{found['mean'].iloc[0]:.3f} ({found['min'].iloc[0]:.3f})" if len(found) else "")
        lines.append(f"| {' | '.join((*map(str, place), format(group['best fixed'].iloc[0], '.3f'), *cells))} |")
    return "\n".join(lines)


def picture(rows: pd.DataFrame, path: Path) -> None:
    """Draw the value against the learning rate (fixed, or AutoLR's start). A flat line near the top is ideal."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    sizes, methods = list(rows["size"].unique()), list(rows["method"].unique())
    figure, axes = plt.subplots(
        len(sizes), len(methods), figsize=(3 * len(methods), 2.6 * len(sizes)), sharex=True, sharey=True, squeeze=False
    )
    means = rows.groupby(["size", "method", "rule", "lr"])["value"].mean()
    for row, size in enumerate(sizes):
        for column, method in enumerate(methods):
            ax = axes[row][column]
            fixed = means[size, method, "fixed"]
            ax.plot(fixed.index, fixed.values, color="0.5", marker="s", markersize=3, label="fixed lr")
            for rule in SHOWN:
                if (size, method, rule) in means:
                    line = means[size, method, rule]
                    ax.plot(line.index, line.values, color=COLOURS[rule], marker="o", markersize=4, label=rule)
            ax.set_xscale("log")
            ax.set_ylim(-0.03, 1.05)
            ax.set_title(f"{method}, {size}", fontsize=9)
            ax.grid(alpha=0.3)
    for ax in axes[-1]:
        ax.set_xlabel("learning rate: fixed, or AutoLR's start")
    for ax in axes[:, 0]:
        ax.set_ylabel("hypervolume")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    figure.set_layout_engine("constrained")
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--picture", type=Path)
    given = parser.parse_args()
    rows = values(given.rows)
    print(f"{len(rows)} runs, seeds {sorted(int(seed) for seed in rows['seed'].unique())}\n")
    print(markdown(summary(rows), rows))
    if given.picture is not None:
        picture(rows, given.picture)


if __name__ == "__main__":
    main()
