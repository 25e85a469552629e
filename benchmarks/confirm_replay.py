"""Does the answer of a search hold with fresh seeds, and what does it cost to know? Replays searches on recorded runs.

    python benchmarks/confirm_replay.py --rows FILE.csv
    python benchmarks/confirm_replay.py --rows FILE.csv --table

The recorded runs are those of benchmarks/search_replay.py: the same configurations with several seeds. A replay is a
default search of 32 trials on the runs with one seed. Its answer is the epoch that keeps most, among the epochs that
meet the criterion: verbmem below 0.1, and at least 70% of the target's utility. The runs of the other seeds are split
at random: three are the fresh runs of a model, and the others are *further runs*, with which the claim is compared.

Arms: ``none`` claims that the answer meets the criterion with any seed. ``3 of 3`` claims it if the answer or a
runner-up does so in three fresh runs, and ``expected`` if also the worst expected scores of a further run
(:func:`analysis.frontier.confirmation.predicted_worst`) do. ``expected, 25%`` trains at most a quarter of the epochs of
the search, as the default of --confirm does.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from replay import Arm, Table, read_tables, replay
from study_rows import Row, print_table, read_rows, run_missing, study_parser

from analysis.frontier.confirmation import predicted_worst
from search_spaces.common.values import as_float
from search_spaces.constraint import Constraint
from sweeper.search.confirmation import AUTOMATIC_SHARE, MODELS
from sweeper.settings.sweep_settings import AUTOMATIC_RUNS

SPLITS = 20
KEEPING_MARGIN = 0.02
ARMS = ("none", "3 of 3", "expected", "expected, 25%")
KEY = ("problem", "table_seed", "search")
COLUMNS = (*KEY, "arm", "split", "answer", "claims", "further", "met", "models", "epochs", "search_epochs")
Scores = Mapping[str, float]


@dataclass(frozen=True)
class Seeds:
    """The recorded epochs of a problem. ``epochs`` maps (configuration, seed) to the scores of each epoch."""

    tables: Mapping[int, Table]
    epochs: Mapping[tuple[str, int], Sequence[Scores]]
    limits: tuple[Constraint, ...]

    def meets(self, scores: Scores) -> bool:
        return all(limit.met(scores[limit.name]) is True for limit in self.limits)

    def scores(self, config: str, seed: int, epoch: int) -> Scores:
        """Return the scores of an epoch. A run that diverged before has none, so it does not meet the criterion."""
        epochs = self.epochs[config, seed]
        return epochs[epoch - 1] if epoch <= len(epochs) else dict.fromkeys(("verbmem", "utility"), np.nan)


@cache
def read(path: Path) -> Seeds:
    tables = {table.seed: table for table in read_tables(path)}
    epochs = {
        (config_of(run.trial_id), seed): [
            {name: as_float(row[name]) for name in ("verbmem", "utility", "retain_loss")} for row in run.epochs
        ]
        for seed, table in tables.items()
        for run in table.runs
    }
    # The tables lack the target, whose utility is nearly that of the first epochs at the smallest rate.
    rates = {config: float(config.rpartition("/")[2]) for config, _ in epochs}
    start = statistics.median(
        rows[0]["utility"] for (config, _), rows in epochs.items() if rates[config] == min(rates.values())
    )
    limits = (Constraint("verbmem", "<", 0.1), Constraint("utility", ">=", 0.7 * start))
    return Seeds(tables, epochs, limits)


def config_of(trial_id: str) -> str:
    """Return the part of a trial's id that does not depend on the seed."""
    return trial_id.rpartition("/")[0]


def ranked_models(candidates: Sequence[tuple[str, int, Scores]]) -> list[tuple[str, int]]:
    """Return the best epoch of each configuration, best first, given the epochs that meet the criterion."""
    models: list[tuple[str, int]] = []
    left = list(candidates)
    while left and len(models) < MODELS:
        best = max(scores["utility"] for *_, scores in left)
        ties = [item for item in left if item[2]["utility"] >= best - KEEPING_MARGIN]
        config, epoch, _ = min(ties, key=lambda item: item[2]["retain_loss"])
        models.append((config, epoch))
        left = [item for item in left if item[0] != config]
    return models


def rows_of(problem: str, table_seed: int, search: int, *, data: Path) -> Iterator[dict[str, object]]:
    """Replay one search, and yield a row for each arm and split."""
    seeds = read(data / f"tabulated_{problem}.csv.xz")
    result = replay(seeds.tables[table_seed], Arm(scheduler="moasha", trials=32), seed=search)
    found = [(config_of(str(row["trial_id"])), int(as_float(row["epoch"]))) for _, row in result.candidates]
    scored = [(config, epoch, seeds.scores(config, table_seed, epoch)) for config, epoch in found]
    models = ranked_models([item for item in scored if seeds.meets(item[2])])
    rng = np.random.default_rng((table_seed, search))
    for split in range(SPLITS):
        order = rng.permutation([seed for seed in seeds.tables if seed != table_seed]).tolist()
        for arm in ARMS:
            yield {
                "arm": arm,
                "split": split,
                "search_epochs": result.spent,
                **_claim(seeds, models, order, arm, result.spent),
            }


def _claim(
    seeds: Seeds, models: Sequence[tuple[str, int]], order: Sequence[int], arm: str, search_epochs: int
) -> dict[str, object]:
    """Return what an arm claims of its answer, and in how many of the further runs the claim is true."""
    spent = trained = 0
    chosen: tuple[str, int, list[int]] | None = None
    claims = False
    for config, epoch in models:
        usable = [seed for seed in order if (config, seed) in seeds.epochs]
        fresh, further = usable[:AUTOMATIC_RUNS], usable[AUTOMATIC_RUNS:]
        if not further:
            continue  # the table has this configuration with too few seeds
        chosen = chosen or (config, epoch, further)
        if arm == "none":
            claims = True
            break
        cost = AUTOMATIC_RUNS * epoch
        if arm.endswith("25%") and spent + cost > AUTOMATIC_SHARE * search_epochs:
            break
        spent, trained = spent + cost, trained + 1
        scores = [seeds.scores(config, seed, epoch) for seed in fresh]
        if all(map(seeds.meets, scores)):
            chosen = (config, epoch, further)
            claims = arm == "3 of 3" or seeds.meets(predicted_worst(pd.DataFrame(scores), seeds.limits))
            break
    if chosen is None:
        return {"answer": "", "claims": 0, "further": 0, "met": 0, "models": trained, "epochs": spent}
    config, epoch, further = chosen
    met = sum(seeds.meets(seeds.scores(config, seed, epoch)) for seed in further)
    answer = f"{config} after {epoch}"
    return {
        "answer": answer,
        "claims": int(claims),
        "further": len(further),
        "met": met,
        "models": trained,
        "epochs": spent,
    }


def print_results(rows: Sequence[Row]) -> None:
    groups: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row["answer"]:
            groups[row["problem"], row["arm"]].append(row)
    lines = []
    for (problem, arm), group in groups.items():
        claimed = [row for row in group if row["claims"] == "1"]
        true_claims = [int(row["met"]) / int(row["further"]) for row in claimed]
        cost = statistics.mean(int(row["epochs"]) / int(row["search_epochs"]) for row in group)
        searches = len({(row["table_seed"], row["search"]) for row in group})
        share = f"{statistics.mean(true_claims):.0%}" if true_claims else "-"
        lines.append((problem, arm, searches, f"{len(claimed) / len(group):.0%}", share, f"{cost:.0%}"))
    print_table(
        ("problem", "arm", "searches", "searches with a claim", "claim true of a further run", "extra epochs"), lines
    )


def main() -> None:
    parser = study_parser(__doc__)
    parser.add_argument("--data", type=Path, default=Path("docs/data"))
    parser.add_argument("--problem", nargs="+", default=["authors", "tofu"])
    parser.add_argument("--searches", type=int, default=10)
    args = parser.parse_args()
    if not args.table:
        jobs = [
            (problem, seed, search)
            for search in range(args.searches)
            for problem in args.problem
            for seed, table in read(args.data / f"tabulated_{problem}.csv.xz").tables.items()
            if len(table.runs)
            == max(len(other.runs) for other in read(args.data / f"tabulated_{problem}.csv.xz").tables.values())
        ]
        run_missing(args.rows, (KEY, COLUMNS), jobs, lambda *job: rows_of(*job, data=args.data))
    print_results(read_rows(args.rows))


if __name__ == "__main__":
    main()
