"""Does an AutoLR rule let runs collapse, and does it meet the paper's thresholds as often as a fixed rate?

    python benchmarks/auto_lr_safety.py --rows FILE.csv [--arm safe:1e-4 --arm fixed:1e-3 ...]
    python benchmarks/auto_lr_safety.py --rows FILE.csv --data tofu --tofu DIR_WITH_TOFUS_FILES
    python benchmarks/auto_lr_safety.py --rows FILE.csv --table

Runs every combination of data, model, seed, method and arm for 15 epochs, and appends a row per run. A second call
makes only the missing runs. The data are the default data, or the first 20 rows of TOFU's forget01 with the retain rows
of ``--limit 20``. A run collapses (column ``ruined``) if the utility is below 70% of the target's or if the run
diverges. A run succeeds if verbmem is below 0.1 and if utility and truth ratio are at least 70% of the target's. The
arm ``interpolated`` is a fixed rate with ``--interpolate on``.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from study_rows import appending, print_table, read_rows, row_keys

from trainables.spec import TrialSpec

METHODS = {
    "gdiff": ("gdiff", (("c", 0.5),)),
    "gdiff95": ("gdiff", (("c", 0.95),)),
    "ngdiff": ("ngdiff", ()),
    "npo+ngdiff": ("npo+ngdiff", ()),
    "pcgrad": ("pcgrad", ()),
    "lossnorm": ("lossnorm", ()),
    "ga": ("ga", ()),
    "npo": ("npo", ()),
    "gd": ("gd", ()),
}
KEY = ("data", "model", "seed", "batch_size", "method", "arm")
COLUMNS = (
    *(*KEY, "status", "utility", "verbmem", "truth_ratio", "target_utility", "target_truth_ratio", "success", "ruined"),
    *("forget_loss", "retain_loss", "last_lr", "steps", "steps_undone", "interpolation"),
    *("train_seconds", "eval_seconds"),
)
LIMIT = 20
"""Forget rows of TOFU."""
KEPT = 0.7
"""The share of the target's utility and truth ratio that a run has to keep."""


def run(
    data: str, model: str, seed: int, batch_size: int, method: str, arm: str, *, tofu: str | None
) -> dict[str, object]:
    """Make one run and return its row. ``arm`` is ``RULE:RATE``, with the initial rate of a rule or the fixed rate."""
    import torch

    from trainables.run.run import UnlearningRun
    from trainables.target.prepare import prepare_target
    from trainables.worker.workspaces import worker_workspace

    torch.set_num_threads(1)
    rule, _, rate = arm.partition(":")
    name, options = METHODS[method]
    spec = TrialSpec(model=model, seed=seed, batch_size=batch_size, epochs=15, method=name, options=options)
    spec = replace(spec, lr=float(rate), auto_lr_log_forget=False)
    if data == "tofu":
        spec = replace(spec, dataset="tofu", forget_split="forget01", data_dir=tofu, limit=LIMIT)
    if rule == "interpolated":
        spec = replace(spec, interpolate="on")
    elif rule != "fixed":
        spec = replace(spec, auto_lr="on", auto_lr_smoothing=rule)
    target = prepare_target(spec)
    unlearning = UnlearningRun(replace(spec, target_key=target.key), worker_workspace(target, "cpu"))
    report = list(unlearning)[-1]
    first = target.baseline
    found = {column: report.final.get(column) for column in ("utility", "verbmem", "truth_ratio")}
    values = {column: value for column, value in found.items() if value is not None}
    kept = [values.get(column, 0.0) >= KEPT * first[column] for column in ("utility", "truth_ratio")]
    counts = unlearning.auto_lr.counts
    return {
        **dict(zip(KEY, (data, model, seed, batch_size, method, arm), strict=True)),
        **found,
        **{column: report.losses.get(column) for column in ("forget_loss", "retain_loss")},
        "status": str(report.status),
        "target_utility": first["utility"],
        "target_truth_ratio": first["truth_ratio"],
        "success": int(all(kept) and values.get("verbmem", 1.0) < 0.1),
        "ruined": int(not kept[0]),
        "last_lr": unlearning.optimizer.param_groups[0]["lr"],
        "steps": report.step,
        "steps_undone": counts["rolled_back"],
        "interpolation": report.training.get("interpolation", 1.0),
        "train_seconds": round(report.train_seconds, 2),
        "eval_seconds": round(report.eval_seconds, 2),
    }


def table(rows: list[dict[str, str]]) -> None:
    """Print the numbers of collapsed and successful runs, and the worst run, for each model and arm."""
    arms: defaultdict[tuple[str, str, str], list[dict[str, str]]] = defaultdict(list)
    for row in rows:
        arms[row["data"], row["model"], row["arm"]].append(row)
    found = []
    for (data, model, arm), of in sorted(arms.items()):
        worst = min(of, key=lambda row: float(row["utility"] or 0.0))
        counted = [sum(int(row[name]) for row in of) for name in ("ruined", "success", "steps_undone")]
        share = float(worst["utility"] or 0.0) / float(worst["target_utility"])
        shown = (f"{share:.2f}", f"{worst['method']}, {worst['seed']}")
        found.append((data, model, arm, len(of), *counted[:2], *shown, counted[2]))
    head = (
        "data",
        "model",
        "arm",
        "runs",
        "ruined",
        "succeeded",
        "worst utility",
        "its method and seed",
        "steps undone",
    )
    print_table(head, found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, default=Path("runs/auto_lr_safety.csv"))
    parser.add_argument("--data", nargs="+", default=["authors"], choices=("authors", "tofu"))
    parser.add_argument("--tofu", help="Folder with TOFU's files, for --data tofu.")
    parser.add_argument("--model", nargs="+", default=["tiny-llama", "tiny-gpt2"])
    parser.add_argument("--seed", nargs="+", type=int, default=[201, 202])
    parser.add_argument("--batch-size", nargs="+", type=int, default=[4])
    parser.add_argument("--method", nargs="+", default=["gdiff", "ngdiff", "npo+ngdiff", "pcgrad"], choices=METHODS)
    rates = ("1e-4", "3e-4", "1e-3", "3e-3")
    starts = ("1e-5", "3e-4", "1e-2")
    arms = [f"fixed:{rate}" for rate in rates] + [f"safe:{rate}" for rate in starts]
    parser.add_argument("--arm", nargs="+", default=arms)
    parser.add_argument("--table", action="store_true", help="Print what the rows say and run nothing.")
    given = parser.parse_args()
    known = read_rows(given.rows)
    if given.table:
        table(known)
        return
    done = row_keys(known, KEY)
    with appending(given.rows, COLUMNS) as append:
        # Arms innermost, so that a study cut short is balanced.
        for job in itertools.product(given.seed, given.batch_size, given.data, given.model, given.method, given.arm):
            seed, batch_size, data, model, method, arm = job
            if (data, model, str(seed), str(batch_size), method, arm) in done:
                continue
            started = time.time()
            row = run(data, model, seed, batch_size, method, arm, tofu=given.tofu)
            append([row])
            shown = " ".join(f"{name}={row[name]}" for name in (*KEY, "utility", "verbmem", "success", "ruined"))
            print(f"{shown} ({time.time() - started:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
