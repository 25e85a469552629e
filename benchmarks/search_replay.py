"""Which search finds the frontier of a full grid with the fewest epochs? Replays searches on recorded runs.

    python benchmarks/search_replay.py --rows FILE.csv --problem authors --table-seed 0
    python benchmarks/search_replay.py --rows FILE.csv --table

The recorded runs are in docs/data/tabulated_*.csv.xz. An arm is a combination of sampler, scheduler and
``--candidates``. Every arm runs 50 searches of each table, but only 10 with the sampler ``gp``. A search adds a row for
each share of the epochs in :data:`SHARES`. A second call makes only the missing searches. Hypervolumes are shares of
the hypervolume of all epochs of all runs in the table.
"""

from __future__ import annotations

import itertools
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import optuna
from replay import EPSILON, HYPERVOLUME, Arm, Table, progress, read_tables, replay
from study_rows import Row, print_table, read_rows, run_missing, study_parser

from sweeper.search.samplers import SAMPLERS as SWEEPS
from sweeper.search.samplers import Search

SHARES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3)
"""The shares of the table's epochs after which a search is measured."""
SAMPLERS = ("random", "qmc", "tpe", "tpe-random-start", "nsga2", "gp")
SLOW = ("gp",)
"""Samplers with 10 searches instead of 50, because a proposal takes a second."""
RANDOM_START = "tpe-random-start"
"""Optuna's TPE with its own random startup points. Sweeps do not offer this sampler."""
KEY = ("problem", "table_seed", "arm", "seed")
COLUMNS = (*KEY, "epochs", "share", "hypervolume", "epsilon", "reached", "trials", "stopped", "spent")


def tpe_with_random_start(search: Search) -> optuna.samplers.BaseSampler:
    """Return the sampler ``tpe`` with random points for its first trials."""
    return optuna.samplers.TPESampler(
        multivariate=True, group=True, constant_liar=True, n_startup_trials=search.startup, seed=search.resumed_seed
    )


def arms(samplers: Sequence[str], rules: Sequence[str], candidates: Sequence[str]) -> Iterator[tuple[str, Arm]]:
    """Yield the name and the arm of every combination. A rule is ``none`` or ``GRACE/REDUCTION`` of ``moasha``."""
    for candidate_rule, rule, sampler in itertools.product(candidates, rules, samplers):
        arm = Arm(sampler=sampler, candidates=candidate_rule)
        if rule != "none":
            grace, reduction = map(int, rule.split("/"))
            arm = replace(arm, scheduler="moasha", grace=grace, reduction=reduction)
        yield f"{sampler} {rule} {candidate_rule}", arm


def rows_of(table: Table, arm: Arm, *, seed: int) -> Iterator[dict[str, object]]:
    """Run one search and yield a row for each share of the table's epochs."""
    epochs = round(max(SHARES) * table.all_epochs)
    result = replay(table, replace(arm, epoch_budget=epochs), seed=seed)
    curve = progress(result, table, epochs=epochs)
    for share in SHARES:
        epoch_count = round(share * table.all_epochs)
        yield {
            "share": share,
            "epochs": epoch_count,
            "hypervolume": f"{curve.share[epoch_count]:.5f}",
            "epsilon": f"{curve.epsilon[epoch_count]:.5f}",
            "reached": curve.reached,
            "trials": len(result.order),
            "stopped": result.stopped,
            "spent": result.spent,
        }


def print_results(rows: Sequence[Row], *, share: float) -> None:
    """For each problem, print the arms, sorted by their median hypervolume at this share of the epochs."""
    groups: defaultdict[str, defaultdict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if float(row["share"]) == share:
            groups[row["problem"]][row["arm"]].append(row)
    head = ("arm", "hypervolume, median (worst)", "epsilon, median (worst)", "found", "median epochs to find")
    for problem, by_arm in sorted(groups.items()):
        table_rows = []
        for arm, group in by_arm.items():
            volumes, epsilons = ([float(row[name]) for row in group] for name in ("hypervolume", "epsilon"))
            volume, epsilon = statistics.median(volumes), statistics.median(epsilons)
            count = sum(v >= HYPERVOLUME and e <= EPSILON for v, e in zip(volumes, epsilons, strict=True))
            reached = sorted(float(row["reached"] or "inf") for row in group)[len(group) // 2]
            measured = (f"{volume:.3f} ({min(volumes):.3f})", f"{epsilon:.3f} ({max(epsilons):.3f})")
            table_rows.append((-volume, arm, *measured, f"{count} of {len(group)}", f"{reached:g}"))
        print(f"\n{problem}, after {share:.0%} of the epochs\n")
        print_table(head, (cells for _, *cells in sorted(table_rows)))


def main() -> None:
    parser = study_parser(__doc__, Path("runs/search_replay.csv"))
    parser.add_argument("--data", type=Path, default=Path("docs/data"))
    parser.add_argument("--problem", nargs="+", default=["authors", "tofu"])
    parser.add_argument("--table-seed", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--sampler", nargs="+", default=list(SAMPLERS))
    parser.add_argument("--rule", nargs="+", default=["none", "1/2"])
    parser.add_argument("--candidates", nargs="+", default=["last", "all"])
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--share", type=float, default=0.1, choices=SHARES)
    args = parser.parse_args()
    if args.table:
        print_results(read_rows(args.rows), share=args.share)
        return
    cast(dict[str, Any], SWEEPS)[RANDOM_START] = tpe_with_random_start
    for problem in args.problem:
        tables = {table.seed: table for table in read_tables(args.data / f"tabulated_{problem}.csv.xz")}
        arm_by_name = dict(arms(args.sampler, args.rule, args.candidates))
        jobs = [
            (problem, table_seed, name, seed)
            for table_seed, (name, arm) in itertools.product(args.table_seed, arm_by_name.items())
            for seed in range(min(args.seeds, 10) if arm.sampler in SLOW else args.seeds)
            if table_seed in tables
        ]
        run_missing(
            args.rows,
            (KEY, COLUMNS),
            jobs,
            lambda _, key, name, seed: rows_of(tables[key], replace(arm_by_name[name], trials=args.trials), seed=seed),  # noqa: B023
        )


if __name__ == "__main__":
    main()
