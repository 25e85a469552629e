"""Which search finds the frontier of a full grid with the fewest epochs? Replays searches on recorded runs.

    python benchmarks/search_replay.py --rows FILE.csv --problem authors --table-seed 0
    python benchmarks/search_replay.py --rows FILE.csv --table

The recorded runs are in docs/data/tabulated_*.csv.xz. Every arm runs 50 searches of one table. A row is appended for
each search, yardstick and number of epochs spent. A second call makes only the missing searches. A yardstick is the
set of objectives by which a search is measured. A search for the losses is measured by the losses (``losses``) and by
the losses with a logarithmic retain loss (``log``). A search for verbmem and utility is measured by these two scores
(``metrics``). Hypervolumes are shares of the hypervolume of all epochs of all runs in the table.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import optuna
from replay.progress import EPSILON, HYPERVOLUME, progress
from replay.read_table import read_tables
from replay.replay import Arm, replay
from replay.table import Table, Yardstick
from study_rows import Row, appending, print_table, read_rows, row_keys

from sweeper.search.samplers import SAMPLERS as SWEEPS
from sweeper.search.samplers import Search
from sweeper.settings.objectives import parse_objectives

OBJECTIVES = {"losses": "forget_loss:max,retain_loss:min", "metrics": "verbmem:min,utility:max"}
SHARES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3)
"""The shares of the table's epochs after which a search is measured."""
SAMPLERS = ("random", "qmc", "tpe", "tpe-random-start", "nsga2", "gp")
SLOW = ("gp",)
"""Samplers with 10 searches instead of 50, because a proposal takes a second."""
FLOOR = 1e-3
"""The lower bound of the retain loss, in nats per token, on the logarithmic axis."""
RANDOM_START = "tpe-random-start"
"""Optuna's TPE with its own random startup points. No sweep has this sampler."""
KEY = ("problem", "table_seed", "objectives", "arm", "seed")
COLUMNS = (*KEY, "yardstick", "epochs", "share", "hypervolume", "epsilon", "reached", "trials", "stopped", "spent")


def tpe_with_random_start(search: Search) -> optuna.samplers.BaseSampler:
    """Return the sampler ``tpe`` with random points for its first trials."""
    return optuna.samplers.TPESampler(
        multivariate=True, group=True, constant_liar=True, n_startup_trials=search.startup, seed=search.resumed_seed
    )


def arms(samplers: Sequence[str], rules: Sequence[str], candidates: Sequence[str]) -> Iterator[tuple[str, Arm]]:
    """Yield the names and arms. A rule is ``none`` or ``GRACE/REDUCTION``, followed by ``p`` if trials are paused."""
    for chosen, rule, sampler in itertools.product(candidates, rules, samplers):
        arm = Arm(sampler=sampler, candidates=chosen)
        if rule != "none":
            grace, _, reduction = rule.rstrip("p").partition("/")
            arm = replace(arm, scheduler="moasha", grace=int(grace), reduction=int(reduction))
            arm = replace(arm, stopping="pause" if rule.endswith("p") else "stop")
        yield f"{sampler} {rule} {chosen}", arm


def rows_of(
    table: Table, name: str, arm: Arm, *, objectives: str, seed: int, trials: int
) -> Iterator[dict[str, object]]:
    """Run one search and yield a row for each yardstick and each share of the table's epochs."""
    epochs = round(max(SHARES) * table.all_epochs)
    course = replay(table, replace(arm, trials=trials, epoch_budget=epochs), seed=seed)
    measured = {objectives: Yardstick.of(table)}
    if objectives == "losses":
        logarithmic = (
            replace(item, low=FLOOR, log=True) if item.name == "retain_loss" else item for item in table.objectives
        )
        measured["log"] = Yardstick.of(table, tuple(logarithmic))
    for yardstick, against in measured.items():
        curves = progress(course, against, epochs=epochs)
        for share in SHARES:
            at = round(share * table.all_epochs)
            yield {
                "objectives": objectives,
                "arm": name,
                "seed": seed,
                "yardstick": yardstick,
                "share": share,
                "epochs": at,
                "hypervolume": f"{curves.share[at]:.5f}",
                "epsilon": f"{curves.epsilon[at]:.5f}",
                "reached": curves.reached,
                "trials": len(course.order),
                "stopped": course.stopped,
                "spent": course.spent,
            }


def study(given: argparse.Namespace) -> None:
    """Run the missing searches and append their rows to the file."""
    done = row_keys(read_rows(given.rows), KEY)
    with appending(given.rows, COLUMNS) as append:
        chosen = list(arms(given.sampler, given.rule, given.candidates))
        for problem, objectives in itertools.product(given.problem, given.objectives):
            tables = read_tables(given.data / f"tabulated_{problem}.csv.xz", parse_objectives(OBJECTIVES[objectives]))
            for table, (name, arm) in itertools.product(tables, chosen):
                if table.seed not in given.table_seed:
                    continue
                began, seeds = time.time(), range(min(given.seeds, 10) if arm.sampler in SLOW else given.seeds)
                for seed in seeds:
                    key = {"problem": problem, "table_seed": table.seed}
                    if (problem, str(table.seed), objectives, name, str(seed)) not in done:
                        found = rows_of(table, name, arm, objectives=objectives, seed=seed, trials=given.trials)
                        append(key | row for row in found)
                print(f"{problem} {table.seed} {objectives} {name} {time.time() - began:.0f} s", flush=True)


def table(rows: Sequence[Row], *, share: float) -> None:
    """Print the arms at a share of the epochs for each problem and yardstick, sorted by median hypervolume."""
    groups: defaultdict[tuple[str, str], defaultdict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if float(row["share"]) == share:
            groups[row["problem"], row["yardstick"]][row["arm"]].append(row)
    head = ("arm", "hypervolume, median (worst)", "epsilon, median (worst)", "found", "median epochs to find")
    for (problem, yardstick), arms in sorted(groups.items()):
        found = []
        for arm, of in arms.items():
            volumes, lacks = ([float(row[name]) for row in of] for name in ("hypervolume", "epsilon"))
            volume, lack = statistics.median(volumes), statistics.median(lacks)
            count = sum(v >= HYPERVOLUME and e <= EPSILON for v, e in zip(volumes, lacks, strict=True))
            reached = sorted(float(row["reached"] or "inf") for row in of)[len(of) // 2]
            measured = (f"{volume:.3f} ({min(volumes):.3f})", f"{lack:.3f} ({max(lacks):.3f})")
            found.append((-volume, arm, *measured, f"{count} of {len(of)}", f"{reached:g}"))
        print(f"\n{problem}, {yardstick}, after {share:.0%} of the epochs\n")
        print_table(head, (cells for _, *cells in sorted(found)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, default=Path("runs/search_replay.csv"))
    parser.add_argument("--data", type=Path, default=Path("docs/data"))
    parser.add_argument("--problem", nargs="+", default=["authors", "tofu"])
    parser.add_argument("--table-seed", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--objectives", nargs="+", default=list(OBJECTIVES), choices=OBJECTIVES)
    parser.add_argument("--sampler", nargs="+", default=list(SAMPLERS))
    parser.add_argument("--rule", nargs="+", default=["none", "1/2"])
    parser.add_argument("--candidates", nargs="+", default=["last", "all"])
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--table", action="store_true", help="Print what the rows say and run nothing.")
    parser.add_argument("--share", type=float, default=0.1, choices=SHARES)
    given = parser.parse_args()
    cast(dict[str, Any], SWEEPS)[RANDOM_START] = tpe_with_random_start
    if given.table:
        table(read_rows(given.rows), share=given.share)
        return
    study(given)


if __name__ == "__main__":
    main()
