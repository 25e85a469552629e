"""Are the methods equally good if each has its own best learning rate, found with the same tuning budget?

    python benchmarks/methods_at_their_best.py --rows FILE.csv          # runs what is missing, a row per run
    python benchmarks/methods_at_their_best.py --rows FILE.csv --table  # prints the results

Every method is run with all ``RATES`` on the tuning seeds, so all methods have the same budget. A method's best rate
has the highest mean score on the tuning seeds. The common rate has the highest mean over methods and tuning seeds. Each
method then runs with both rates on the report seeds. Several processes can share the work with ``--part 1/2``, each
with its own file of rows; ``--rows`` reads several files.

The score of a run is the smaller of two shares in [0, 1]: utility / target's utility, and 1 - verbmem / target's
verbmem. An unchanged or a collapsed model scores 0. A run succeeds if verbmem is below 0.1 and utility is at least 70%
of the target's.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from study_rows import Row, appending, print_table, read_rows, row_keys

from trainables.spec import TrialSpec

RATES = ("3e-4", "1e-3", "3e-3", "1e-2")
TUNING, REPORT = (300, 301), (310, 311, 312, 313, 314)
KEY = ("model", "method", "rate", "seed")
OUTCOME = ("status", "utility", "verbmem", "target_utility", "target_verbmem", "score", "success", "train_seconds")


def run(model: str, method: str, rate: str, seed: int) -> dict[str, object]:
    """Make one run of 15 epochs and return its row."""
    import torch

    from trainables.run.run import UnlearningRun
    from trainables.target.prepare import prepare_target
    from trainables.worker.workspaces import worker_workspace

    torch.set_num_threads(1)
    spec = TrialSpec(model=model, method=method, lr=float(rate), seed=seed, epochs=15, eval_every=15)
    spec = replace(spec, metrics=("verbmem", "utility"))
    target = prepare_target(spec)
    report = list(UnlearningRun(replace(spec, target_key=target.key), worker_workspace(target, "cpu")))[-1]
    first = target.baseline
    utility, verbmem = report.final.get("utility", 0.0), report.final.get("verbmem", first["verbmem"])
    kept = min(1.0, utility / first["utility"])
    return {
        **dict(zip(KEY, (model, method, rate, seed), strict=True)),
        "status": str(report.status),
        "utility": utility,
        "verbmem": verbmem,
        "target_utility": first["utility"],
        "target_verbmem": first["verbmem"],
        "score": min(kept, max(0.0, 1.0 - verbmem / first["verbmem"])),
        "success": int(kept >= 0.7 and verbmem < 0.1),
        "train_seconds": round(report.train_seconds, 2),
    }


def chosen_rates(rows: Iterable[Row], methods: Iterable[str]) -> tuple[dict[str, str], str]:
    """Return each method's own best rate and the common rate, from the tuning seeds. Ties go to the lower rate."""
    scores: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows:
        if int(row["seed"]) in TUNING:
            scores[row["method"], row["rate"]].append(float(row["score"]))
    means = {key: statistics.fmean(values) for key, values in scores.items()}
    own = {method: max(RATES, key=lambda rate: means[method, rate]) for method in methods}
    return own, max(RATES, key=lambda rate: statistics.fmean(means[method, rate] for method in own))


def work(model: str, methods: list[str], known: list[Row]) -> list[tuple[str, str, int]]:
    """Return (method, rate, seed) of all runs. The runs on tuning seeds come before the runs on report seeds."""
    done = row_keys(known, KEY)
    tuning = [(method, rate, seed) for seed in TUNING for method in methods for rate in RATES]
    missing = [job for job in tuning if (model, job[0], job[1], str(job[2])) not in done]
    if missing:
        return missing
    own, common = chosen_rates(known, methods)
    reporting = [(m, rate, seed) for seed in REPORT for m in methods for rate in sorted({own[m], common}, key=float)]
    return [job for job in reporting if (model, job[0], job[1], str(job[2])) not in done]


def table(rows: list[Row], methods: list[str]) -> None:
    """Print the rates and scores per method, including the worst run, and how much the methods differ."""
    own, common = chosen_rates(rows, methods)
    cells: defaultdict[tuple[str, str], dict[int, Row]] = defaultdict(dict)
    for row in rows:
        cells[row["method"], row["rate"]][int(row["seed"])] = row

    def scores(method: str, rate: str, seeds: Iterable[int]) -> list[float]:
        return [float(cells[method, rate][seed]["score"]) for seed in seeds]

    best = max(methods, key=lambda method: statistics.fmean(scores(method, own[method], TUNING)))
    shown = []
    at_own: dict[str, float] = {}
    at_common: dict[str, float] = {}
    for method in sorted(methods, key=lambda method: -statistics.fmean(scores(method, own[method], REPORT))):
        mine = scores(method, own[method], REPORT)
        at_own[method] = statistics.fmean(mine)
        at_common[method] = statistics.fmean(scores(method, common, REPORT))
        met = sum(int(cells[method, own[method]][seed]["success"]) for seed in REPORT)
        behind = [theirs - ours for theirs, ours in zip(scores(best, own[best], REPORT), mine, strict=True)]
        parts = (method, own[method], interval(mine), f"{min(mine):.3f}", f"{met} of {len(REPORT)}")
        shown.append((*parts, f"{at_common[method]:.3f}", interval(behind) if method != best else ""))
    print_table(("method", "its rate", "score", "worst", "met", f"at {common}", f"behind {best}"), shown)
    spread("all", methods, at_own, at_common, common)
    spread("with a retain gradient", [name for name in methods if needs_retain(name)], at_own, at_common, common)


def needs_retain(method: str) -> bool:
    """Return whether the method's step uses the retain gradient."""
    from trainables.methods import parse_method
    from trainables.weightings import Needs

    return parse_method(method).weighting.needs not in (Needs.FORGET_ONLY, Needs.RETAIN_ONLY)


def spread(name: str, methods: list[str], own: dict[str, float], shared: dict[str, float], common: str) -> None:
    """Print how much the mean scores of the methods differ, at their own rates and at the common rate."""
    if len(methods) < 2:
        return
    for rates, means in (("own rates", own), (f"the common rate {common}", shared)):
        values = sorted(means[method] for method in methods)
        quarters = statistics.quantiles(values, n=4)
        print(
            f"{name} ({len(methods)}), {rates}: mean {statistics.fmean(values):.3f}, standard deviation "
            f"{statistics.stdev(values):.3f}, quartiles {quarters[0]:.3f} to {quarters[2]:.3f}, "
            f"from {values[0]:.3f} to {values[-1]:.3f}"
        )


def interval(values: list[float]) -> str:
    """Return the mean with its 95% interval (Student's t over seeds)."""
    from scipy.stats import t

    half = float(t.ppf(0.975, len(values) - 1)) * statistics.stdev(values) / math.sqrt(len(values))
    return f"{statistics.fmean(values):.3f} ± {half:.3f}"


def read(paths: Iterable[Path]) -> list[Row]:
    """Return the rows of all files that exist. A run that is in several files is returned once."""
    return list({tuple(row[name] for name in KEY): row for path in paths for row in read_rows(path)}.values())


def main() -> None:
    from trainables.methods import method_names

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, nargs="+", required=True, help="The first is written to.")
    parser.add_argument("--model", default="tiny-phi")
    parser.add_argument("--method", nargs="+", help="Those to run; all that forget.")
    parser.add_argument("--part", default="1/1", help="This process's share of the work, I/N.")
    parser.add_argument("--table", action="store_true", help="Print what the rows say and run nothing.")
    given = parser.parse_args()
    methods = given.method or [name for name in method_names() if name != "gd"]
    if given.table:
        table([row for row in read(given.rows) if row["model"] == given.model], methods)
        return
    number, parts = (int(word) for word in given.part.split("/"))
    mine = {method for index, method in enumerate(methods) if index % parts == number - 1}
    while jobs := work(given.model, methods, read(given.rows)):
        own_jobs = [job for job in jobs if job[0] in mine]
        if not own_jobs:
            time.sleep(5.0)  # the others are not done with the tuning seeds
        for method, rate, seed in own_jobs:
            started = time.time()
            row = run(given.model, method, rate, seed)
            with appending(given.rows[0], (*KEY, *OUTCOME)) as append:
                append([row])
            shown = " ".join(f"{name}={row[name]}" for name in (*KEY, "score", "success"))
            print(f"{shown} ({time.time() - started:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
