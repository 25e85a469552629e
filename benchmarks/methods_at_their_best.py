"""Are the methods equally good if each has its own best learning rate, found with the same tuning budget?

    python benchmarks/methods_at_their_best.py --rows FILE.csv          # runs what is missing, a row per run
    python benchmarks/methods_at_their_best.py --rows FILE.csv --table  # prints the results

Every method is run with all ``RATES`` on the tuning seeds, so all methods have the same budget. A method's best rate
has the highest mean score on the tuning seeds. The common rate has the highest mean over methods and tuning seeds. Each
method then runs with both rates on the report seeds.

The score of a run is the smaller of two shares in [0, 1]: utility / target's utility, and 1 - verbmem / target's
verbmem. An unchanged or a collapsed model scores 0. A run succeeds if verbmem is below 0.1 and utility is at least 70%
of the target's.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from study_rows import Row, print_table, read_rows, run_missing, study_parser

from trainables.spec import TrialSpec

RATES = ("3e-4", "1e-3", "3e-3", "1e-2")
TUNING, REPORT = (300, 301), (310, 311, 312, 313, 314)
KEY = ("model", "method", "rate", "seed")
OUTCOME = ("status", "utility", "verbmem", "target_utility", "target_verbmem", "score", "success", "train_seconds")


def run(model: str, method: str, rate: str, seed: int) -> list[dict[str, Any]]:
    """Make one run of 15 epochs and return its row."""
    from one_run import unlearn

    spec = TrialSpec(model=model, method=method, lr=float(rate), seed=seed, epochs=15, eval_every=15)
    _, report, workspace = unlearn(replace(spec, metrics=("verbmem", "utility")))
    target_scores = workspace.target.baseline
    utility, verbmem = report.metrics.get("utility", 0.0), report.metrics.get("verbmem", target_scores["verbmem"])
    utility_share = min(1.0, utility / target_scores["utility"])
    row = {
        "status": str(report.status),
        "utility": utility,
        "verbmem": verbmem,
        "target_utility": target_scores["utility"],
        "target_verbmem": target_scores["verbmem"],
        "score": min(utility_share, max(0.0, 1.0 - verbmem / target_scores["verbmem"])),
        "success": int(utility_share >= 0.7 and verbmem < 0.1),
        "train_seconds": round(report.timers.train_seconds, 2),
    }
    return [row]


def select_rates(rows: Iterable[Row], methods: Iterable[str]) -> tuple[dict[str, str], str]:
    """Return the best rate of each method, and the common rate, on the tuning seeds. Ties go to the lower rate."""
    scores: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows:
        if int(row["seed"]) in TUNING:
            scores[row["method"], row["rate"]].append(float(row["score"]))
    means = {key: statistics.fmean(values) for key, values in scores.items()}
    best_rates = {method: max(RATES, key=lambda rate: means[method, rate]) for method in methods}
    return best_rates, max(RATES, key=lambda rate: statistics.fmean(means[method, rate] for method in best_rates))


def print_results(rows: list[Row], methods: list[str]) -> None:
    """Print the rates and scores per method, including the worst run, and how much the methods differ."""
    from trainables.methods import parse_method
    from trainables.weightings import Needs

    best_rates, common = select_rates(rows, methods)
    cells = {(row["method"], row["rate"], int(row["seed"])): row for row in rows}

    def scores(method: str, rate: str) -> list[float]:
        return [float(cells[method, rate, seed]["score"]) for seed in REPORT]

    means = {name: [statistics.fmean(scores(name, rate)) for rate in (best_rates[name], common)] for name in methods}
    table_rows = []
    for name in sorted(methods, key=lambda name: -means[name][0]):
        report_scores = scores(name, best_rates[name])
        successes = sum(int(cells[name, best_rates[name], seed]["success"]) for seed in REPORT)
        worst, common_score = f"{min(report_scores):.3f}", f"{means[name][1]:.3f}"
        table_rows.append(
            (name, best_rates[name], interval(report_scores), worst, f"{successes} of {len(REPORT)}", common_score)
        )
    print_table(("method", "its rate", "score", "worst", "met", f"at {common}"), table_rows)
    needs = {name: parse_method(name).weighting.needs for name in methods}
    retaining = [name for name in methods if needs[name] not in (Needs.FORGET_ONLY, Needs.RETAIN_ONLY)]
    for title, group in (("all", methods), ("with a retain gradient", retaining)):
        if len(group) > 1:
            spread = [f"{statistics.stdev(means[name][index] for name in group):.3f}" for index in (0, 1)]
            print(f"standard deviation of the mean scores, {title} ({len(group)}): {spread[0]} at own rates,", end=" ")
            print(f"{spread[1]} at {common}")


def interval(values: list[float]) -> str:
    """Return the mean with its 95% interval (Student's t over seeds)."""
    from scipy.stats import t

    half_width = float(t.ppf(0.975, len(values) - 1)) * statistics.stdev(values) / math.sqrt(len(values))
    return f"{statistics.fmean(values):.3f} ± {half_width:.3f}"


def main() -> None:
    from trainables.methods import method_names

    parser = study_parser(__doc__)
    parser.add_argument("--model", default="tiny-phi")
    parser.add_argument("--method", nargs="+", default=[name for name in method_names() if name != "gd"])
    args = parser.parse_args()
    if not args.table:
        tuning = itertools.product([args.model], args.method, RATES, TUNING)
        run_missing(args.rows, (KEY, (*KEY, *OUTCOME)), tuning, run)
        best_rates, common = select_rates(read_rows(args.rows), args.method)
        pairs = [(method, rate) for method in args.method for rate in sorted({best_rates[method], common}, key=float)]
        reporting = ((args.model, method, rate, seed) for seed in REPORT for method, rate in pairs)
        run_missing(args.rows, (KEY, (*KEY, *OUTCOME)), reporting, run)
    rows = [row for row in read_rows(args.rows) if row["model"] == args.model]
    have_rows = {row["method"] for row in rows}
    print_results(rows, [method for method in args.method if method in have_rows])


if __name__ == "__main__":
    main()
