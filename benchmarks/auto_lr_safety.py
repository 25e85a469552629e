"""Does an AutoLR rule let runs collapse, and does it meet the paper's thresholds as often as a fixed rate?

    python benchmarks/auto_lr_safety.py --rows FILE.csv [--arm gen:1e-4 off:1e-3 off+interpolate:1e-3 ...]
    python benchmarks/auto_lr_safety.py --rows FILE.csv --table

Runs every combination of model, seed, batch size (by default only 4), method and arm on the data ``authors`` for 15
epochs, and appends a row per run. An arm is a value of ``--auto-lr`` with the initial rate, such as ``gen:1e-4`` or
``off:1e-3``. The words ``decay``, ``restart`` and ``interpolate`` add ``--lr-decay linear``, ``--on-divergence
restart`` and ``--interpolate on``, such as ``off+interpolate:1e-3``. A second call makes only the missing runs. A run
collapses (column ``ruined``) if the utility is below 70% of the target's or if the run diverges. A run succeeds if
verbmem is below 0.1 and if utility and truth ratio are at least 70% of the target's.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

from study_rows import Row, print_table, read_rows, run_missing, study_parser

from trainables.spec import TrialSpec

METHODS = {"gdiff": (("c", 0.5),), "ngdiff": (), "npo+ngdiff": (), "pcgrad": ()}
KEY = ("data", "model", "seed", "batch_size", "method", "arm")
COLUMNS = (
    *(*KEY, "status", "utility", "verbmem", "truth_ratio", "target_utility", "target_truth_ratio", "success", "ruined"),
    *("forget_loss", "retain_loss", "last_lr", "steps", "steps_undone", "interpolation"),
    *("lr_updates", "lr_updates_accepted", "train_seconds", "eval_seconds", "decision_seconds"),
)
_SETTINGS = {
    "decay": ("lr_decay", "linear"),
    "restart": ("on_divergence", "restart"),
    "interpolate": ("interpolate", "on"),
}
"""The settings of the words in an arm. Any other word is a value of ``auto_lr``."""
MIN_SHARE = 0.7
"""The share of the target's utility and truth ratio that a run has to keep."""


def run(data: str, model: str, seed: int, batch_size: int, method: str, arm: str) -> list[dict[str, Any]]:
    """Make one run and return its row. ``arm`` is ``WORD+WORD:RATE``; each word sets one setting, see the top."""
    from one_run import unlearn

    words, _, rate = arm.partition(":")
    settings = dict(_SETTINGS.get(word, ("auto_lr", word)) for word in words.split("+"))
    spec = TrialSpec(dataset=data, model=model, seed=seed, batch_size=batch_size, epochs=15, lr=float(rate))
    spec = replace(spec, method=method, options=METHODS[method], auto_lr_log_forget=False)
    spec = TrialSpec.from_dict(spec.to_dict() | settings)
    unlearning, report, workspace = unlearn(spec)
    target_scores = workspace.target.baseline
    metrics = {column: report.metrics.get(column) for column in ("utility", "verbmem", "truth_ratio")}
    is_kept = [(metrics[column] or 0.0) >= MIN_SHARE * target_scores[column] for column in ("utility", "truth_ratio")]
    verbmem = 1.0 if metrics["verbmem"] is None else metrics["verbmem"]
    row = {
        **metrics,
        **{column: report.losses.get(column) for column in ("forget_loss", "retain_loss")},
        "status": str(report.status),
        "target_utility": target_scores["utility"],
        "target_truth_ratio": target_scores["truth_ratio"],
        "success": int(all(is_kept) and verbmem < 0.1),
        "ruined": int(not is_kept[0]),
        "last_lr": unlearning.optimizer.param_groups[0]["lr"],
        "steps": report.step,
        "steps_undone": report.training.get("steps_undone", 0.0),
        "interpolation": report.training.get("interpolation", 1.0),
        **{name: report.training.get(name) for name in ("lr_updates", "lr_updates_accepted")},
        "train_seconds": round(report.timers.train_seconds, 2),
        "eval_seconds": round(report.timers.eval_seconds, 2),
        "decision_seconds": round(report.timers.decision_seconds, 2),
    }
    return [row]


def print_results(rows: list[Row]) -> None:
    """Print the numbers of collapsed and successful runs, and the worst run, for each model and arm."""
    arms: defaultdict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        arms[row["data"], row["model"], row["arm"]].append(row)
    table_rows = []
    for arm, group in sorted(arms.items()):
        worst = min(group, key=lambda row: float(row["utility"] or 0.0))
        ruined, success, undone = (
            sum(int(float(row[name])) for row in group) for name in ("ruined", "success", "steps_undone")
        )
        share = float(worst["utility"] or 0.0) / float(worst["target_utility"])
        table_rows.append(
            (*arm, len(group), ruined, success, f"{share:.2f}", f"{worst['method']}, {worst['seed']}", undone)
        )
    head = ("data", "model", "arm", "runs", "ruined", "succeeded", "worst utility", "its method and seed")
    print_table((*head, "steps undone"), table_rows)


def main() -> None:
    parser = study_parser(__doc__, Path("runs/auto_lr_safety.csv"))
    parser.add_argument("--model", nargs="+", default=["tiny-llama", "tiny-gpt2"])
    parser.add_argument("--seed", nargs="+", type=int, default=[201, 202])
    parser.add_argument("--batch-size", nargs="+", type=int, default=[4])
    parser.add_argument("--method", nargs="+", default=list(METHODS), choices=METHODS)
    arms = [f"off:{rate}" for rate in ("1e-4", "3e-4", "1e-3", "3e-3")]
    arms += [f"gen:{rate}" for rate in ("1e-5", "3e-4", "1e-2")]
    parser.add_argument("--arm", nargs="+", default=arms)
    args = parser.parse_args()
    if args.table:
        print_results(read_rows(args.rows))
        return
    # The arms vary fastest, so that an interrupted study is balanced.
    jobs = itertools.product(args.seed, args.batch_size, args.model, args.method, args.arm)
    ordered_jobs = (("authors", model, seed, batch_size, method, arm) for seed, batch_size, model, method, arm in jobs)
    run_missing(args.rows, (KEY, COLUMNS), ordered_jobs, run)


if __name__ == "__main__":
    main()
