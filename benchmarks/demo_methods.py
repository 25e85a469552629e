"""Which methods suit the default sweep, which has the model tiny-phi and the data set authors?

    python benchmarks/demo_methods.py --rows FILE.csv          # makes the missing runs, with a row per measured epoch
    python benchmarks/demo_methods.py --rows FILE.csv --table  # prints the results

On the tuning seed, each method runs with its best rate in docs/data/methods_at_their_best.csv, and each of ten pairs
with two rates. The metrics are measured after 5, 10 and 15 epochs. The best methods then run with their best rate on
the report seeds, which have other authors, facts and targets, and their best epoch is reported. With ``--items DIR``,
the answers and the values of all items are kept, too.

The best rate and epoch have the highest score on the tuning seed. The score is the smallest of three shares: retained
facts kept, forgotten facts not told, and forget questions answered fluently or with a refusal. Of equal scores, the one
with the smallest ``retain_kl`` is the best.

In docs/data/demo_methods.csv, the answers of only some runs were counted with the present definition of garbled text.
The cells of the other runs are empty, and ``--table`` leaves these runs out.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from study_rows import Row, print_table, read_rows, run_missing, study_parser

from trainables.spec import TrialSpec

PAIR_RATES, EPOCHS, EVERY = ("2e-4", "5e-4"), 15, 5
LOW_RATE = (
    *("gd", "ga", "imtl-g", "nash-mtl", "ngdiff", "aligned-mtl", "rotograd-scale"),
    *("npo", "simnpo", "dpo", "undial", "ce-u", "satimp"),
)
BEST_RATES = {**dict.fromkeys(LOW_RATE, "3e-4"), "rmu": "3e-3"}
"""The best rates of the methods that are not pairs; 1e-3 for the methods that are not listed."""
TUNING, REPORT, REPORTED = 950, (951, 952), 8
PAIRS = tuple(
    f"{objective}+{weighting}"
    for objective in ("npo", "simnpo", "dpo", "undial", "ce-u")
    for weighting in ("gdiff", "ngdiff")
)
"""Objectives whose default weighting has no retain gradient, with weightings that have one."""
KEY = ("method", "lr", "seed")
SHARES = {
    "retain_facts_kept": "retain_fact_recall",
    "rephrased_facts_kept": "retain_fact_recall_rephrased",
    "neighbour_facts_kept": "neighbour_fact_recall",
}
"""The columns that are shares of the target's score, and their metrics."""
SCORES = (
    *("forget_fact_recall", "forget_fluent", "forget_refusals", "forget_loops", "forget_answer_loss"),
    *("retain_kl", "forget_repetition", "retain_repetition", "verbmem", "utility", "forget_loss_capped", "retain_loss"),
)
COLUMNS = (*KEY, "epoch", "status", *SHARES, *SCORES, "train_seconds")


def spec_of(method: str, *, lr: str, seed: int) -> TrialSpec:
    return TrialSpec(
        method=method,
        lr=float(lr),
        seed=seed,
        data_seed=0 if seed == TUNING else seed,
        epochs=EPOCHS,
        eval_every=EVERY,
        metrics_every=EVERY,
        metrics=("default", "facts"),
    )


def run(method: str, lr: str, seed: int, *, items: Path | None) -> Iterator[dict[str, object]]:
    """Make one run, and yield a row for each epoch with measured metrics."""
    import torch

    from trainables.run.run import UnlearningRun
    from trainables.scoring.item_log import write_item_log
    from trainables.target.prepare import prepare_target
    from trainables.worker.process import worker_workspace

    torch.set_num_threads(1)
    spec = spec_of(method, lr=lr, seed=seed)
    target = prepare_target(spec)
    unlearning = UnlearningRun(spec, worker_workspace(target, "cpu"))
    for report in unlearning:
        if report.metrics:
            values = {**report.losses, **report.metrics}
            kept = {name: values[metric] / target.baseline[metric] for name, metric in SHARES.items()}
            numbers = {**kept, **{name: values[name] for name in SCORES}}
            if items is not None:
                write_item_log(items / f"{method}-{lr}-{seed}-{report.epoch:g}.json", unlearning.items)
            yield {
                "epoch": f"{report.epoch:g}",
                "status": str(report.status or ""),
                **{name: f"{value:.5g}" for name, value in numbers.items()},
                "train_seconds": f"{report.timers.train_seconds:.2f}",
            }
        elif report.status is not None:
            yield {"epoch": f"{report.epoch:g}", "status": str(report.status)}


def best_points(rows: Iterable[Row]) -> dict[str, tuple[str, str]]:
    """Return the best rate and epoch of each method on the tuning seed, best method first."""

    def score(row: Row) -> tuple[float, float]:
        shares = (
            float(row["retain_facts_kept"]),
            1.0 - float(row["forget_fact_recall"]),
            1.0 - float(row["forget_loops"]),
        )
        return min(1.0, *shares), -float(row["retain_kl"])

    best: dict[str, Row] = {}
    for row in rows:
        if int(row["seed"]) == TUNING and row["forget_loops"]:
            best[row["method"]] = max(best.get(row["method"], row), row, key=score)
    order = sorted(best.values(), key=score, reverse=True)
    return {row["method"]: (row["lr"], row["epoch"]) for row in order}


def print_results(rows: Sequence[Row]) -> None:
    """Print the scores for the best rate and epoch of each method: on the tuning seed, and on the report seeds."""
    names = ("forget_fact_recall", *SHARES, *SCORES[1:6], "retain_repetition", "verbmem", "utility")
    for title, seeds in (("tuning seed", (TUNING,)), ("report seeds", REPORT)):
        groups: defaultdict[tuple[str, str, str], list[Row]] = defaultdict(list)
        for row in rows:
            if int(row["seed"]) in seeds and row["forget_loops"]:
                groups[row["method"], row["lr"], row["epoch"]].append(row)
        print(f"\n{title}\n")
        print_table(
            ("method", "lr", "epoch", "seeds", *names),
            (
                (
                    method,
                    *point,
                    len(group),
                    *(f"{statistics.fmean(float(row[name]) for row in group):.3g}" for name in names),
                )
                for method, point in best_points(rows).items()
                if (group := groups[(method, *point)])
            ),
        )


def main() -> None:
    from trainables.methods import method_names

    parser = study_parser(__doc__, Path("runs/demo_methods.csv"))
    parser.add_argument("--method", nargs="+", default=[*PAIRS, *method_names()])
    parser.add_argument("--items", type=Path, help="Folder for the answers and the values of the items.")
    args = parser.parse_args()
    if not args.table:
        run_one = partial(run, items=args.items)
        tuning = [
            (method, lr, TUNING)
            for method in args.method
            for lr in (PAIR_RATES if method in PAIRS else (BEST_RATES.get(method, "1e-3"),))
        ]
        run_missing(args.rows, (KEY, COLUMNS), tuning, run_one)
        points = list(best_points(read_rows(args.rows)).items())[:REPORTED]
        reporting = [(method, lr, seed) for seed in REPORT for method, (lr, _) in points]
        run_missing(args.rows, (KEY, COLUMNS), reporting, run_one)
    print_results(read_rows(args.rows))


if __name__ == "__main__":
    main()
