"""Does the answer of a search hold with fresh seeds, and what does it cost to know? Replays searches on recorded runs.

    python benchmarks/confirm_replay.py --rows FILE.csv
    python benchmarks/confirm_replay.py --rows docs/data/confirm_replay.csv --table

The recorded runs are those of benchmarks/search_replay.py: the same configurations with several seeds. A replay is a
default search of 32 trials on the runs with one seed. A model meets the criterion if its verbmem is below 0.1, and its
utility is at least 70% of the target's. The answer is the best model (:mod:`analysis.frontier.ranking`). The runs with
the other seeds are split at random into three fresh runs of each configuration and *further runs*, with which the claim
of the answer is compared.

The arm ``none`` claims that the answer meets the criterion with any seed. The arm ``3 of 3`` claims this only if the
answer or a runner-up meets it in three fresh runs, and ``expected`` only if the worst expected scores of a further run
meet it, too (:func:`analysis.frontier.confirmation.predicted_worst`). Arms with ``25%`` train at most a quarter of the
epochs of the search, as the default of ``--confirm`` does.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from replay import Arm, Table, read_tables, replay
from study_rows import Row, print_table, read_rows, run_missing, study_parser

from analysis.frontier.choice import RUNNERS_UP
from analysis.frontier.confirmation import predicted_worst
from analysis.frontier.criterion import STATED, Criterion, Requirement, Role, TargetScores
from analysis.frontier.ranking import NO_NOISE, Ranking
from analysis.tables.columns import Columns
from search_spaces.common.objective import Objective
from search_spaces.common.values import as_float
from search_spaces.constraint import Constraint
from sweeper.search.confirmation import AUTOMATIC_SHARE
from sweeper.settings.sweep_settings import AUTOMATIC_RUNS
from sweeper.store.columns import column_dictionary

SPLITS = 20
ARMS = ("none", "3 of 3", "expected", "expected 25%")
KEY = ("problem", "table_seed", "search")
COLUMNS = (*KEY, "arm", "splits", "claims", "true", "epochs", "search_epochs")
SCORES = ("verbmem", "utility", "forget_loss", "forget_loss_capped", "retain_loss")
Scores = Mapping[str, float]


class Model(NamedTuple):
    """A configuration after an epoch, and its scores."""

    config: str
    epoch: int
    scores: Scores


@dataclass(frozen=True)
class Seeds:
    """The recorded runs of a problem. ``epochs`` maps (configuration, seed) to the scores of each epoch."""

    tables: Mapping[int, Table]
    epochs: Mapping[tuple[str, int], Sequence[Scores]]
    limits: tuple[Constraint, Constraint]

    def meets(self, scores: Scores) -> bool:
        return all(limit.met(scores[limit.name]) is True for limit in self.limits)

    def scores(self, config: str, seed: int, epoch: int) -> Scores:
        """Return the scores of an epoch. A run that diverged before has none, so it does not meet the criterion."""
        epochs = self.epochs[config, seed]
        return epochs[epoch - 1] if epoch <= len(epochs) else {limit.name: math.nan for limit in self.limits}


@cache
def read(path: Path) -> Seeds:
    tables = {table.seed: table for table in read_tables(path)}
    epochs = {
        (config_of(run.trial_id), seed): [{name: as_float(row[name]) for name in SCORES} for row in run.epochs]
        for seed, table in tables.items()
        for run in table.runs
    }
    # The tables lack the target, whose utility is nearly that of the first epochs at the smallest rate.
    rates = {config: float(config.rpartition("/")[2]) for config, _ in epochs}
    slowest = [rows for (config, _), rows in epochs.items() if rates[config] == min(rates.values())]
    start = statistics.median(rows[0]["utility"] for rows in slowest)
    return Seeds(tables, epochs, (Constraint("verbmem", "<", 0.1), Constraint("utility", ">=", 0.7 * start)))


def config_of(trial_id: str) -> str:
    """Return the part of a trial's id that does not depend on the seed."""
    return trial_id.rpartition("/")[0]


def complete_tables(tables: Mapping[int, Table]) -> list[int]:
    """Return the seeds whose tables have all configurations."""
    size = max(len(table.runs) for table in tables.values())
    return [seed for seed, table in tables.items() if len(table.runs) == size]


def ranked_models(good: Sequence[Model], limits: Sequence[Constraint], objectives: Sequence[Objective]) -> list[Model]:
    """Return the best model of each of the best configurations, best first, given the models that meet the criterion.

    Args:
        limits: the limit on forgetting and the limit on keeping.
    """
    columns = Columns.from_dict(column_dictionary(unit="token"))
    pairs = zip(limits, (Role.FORGET, Role.KEEP), strict=True)
    requirements = tuple(Requirement(limit, role, STATED) for limit, role in pairs)
    target = TargetScores()
    criterion = Criterion("none", requirements, (), (), (), columns, lambda rows: [target] * len(rows))
    ranking = Ranking(pd.DataFrame([model.scores for model in good]), criterion, objectives, NO_NOISE)
    groups = pd.factorize(pd.Series([model.config for model in good], dtype=object))[0].tolist()
    return [good[i] for i in ranking.order(range(len(good)), 1 + RUNNERS_UP, groups=groups)]


def rows_of(problem: str, table_seed: int, search: int, *, data: Path) -> Iterator[dict[str, object]]:
    """Replay one search, and yield a row for each arm."""
    seeds = read(data / f"tabulated_{problem}.csv.xz")
    result = replay(seeds.tables[table_seed], Arm(scheduler="moasha", trials=32), seed=search)
    found = [(config_of(str(row["trial_id"])), int(as_float(row["epoch"]))) for _, row in result.candidates]
    scored = [Model(config, epoch, seeds.scores(config, table_seed, epoch)) for config, epoch in found]
    good = [model for model in scored if seeds.meets(model.scores)]
    models = ranked_models(good, seeds.limits, seeds.tables[table_seed].objectives)
    other_seeds = [seed for seed in seeds.tables if seed != table_seed]
    for arm in ARMS:
        rng = np.random.default_rng((table_seed, search))
        orders = [rng.permutation(other_seeds).tolist() for _ in range(SPLITS)]
        claims = [_claim(seeds, models, order, arm, search_epochs=result.spent) for order in orders]
        true = [claim.true for claim in claims if claim.true is not None]
        yield {
            "arm": arm,
            "splits": SPLITS,
            "claims": len(true),
            "true": f"{sum(true):.4g}",
            "epochs": statistics.mean(claim.epochs for claim in claims),
            "search_epochs": result.spent,
        }


class Claim(NamedTuple):
    """The claim of an answer. ``true`` is the share of the further runs that meet the criterion; None without a claim.

    ``epochs`` is the number of epochs of the fresh runs.
    """

    true: float | None
    epochs: int


def _claim(seeds: Seeds, models: Sequence[Model], order: Sequence[int], arm: str, *, search_epochs: int) -> Claim:
    spent = 0
    for config, epoch, _ in models:
        usable = [seed for seed in order if (config, seed) in seeds.epochs]
        fresh, further = usable[:AUTOMATIC_RUNS], usable[AUTOMATIC_RUNS:]
        if not further:
            continue  # the tables have this configuration with too few seeds
        true = statistics.mean(seeds.meets(seeds.scores(config, seed, epoch)) for seed in further)
        if arm.startswith("none"):
            return Claim(true, 0)
        cost = AUTOMATIC_RUNS * epoch
        if "25%" in arm and spent + cost > AUTOMATIC_SHARE * search_epochs:
            break
        spent += cost
        scores = [seeds.scores(config, seed, epoch) for seed in fresh]
        if all(map(seeds.meets, scores)):
            is_claimed = arm == "3 of 3" or seeds.meets(predicted_worst(pd.DataFrame(scores), seeds.limits))
            return Claim(true if is_claimed else None, spent)
    return Claim(None, spent)


def print_results(rows: Sequence[Row]) -> None:
    groups: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["problem"], row["arm"]].append(row)
    lines = []
    for (problem, arm), group in sorted(groups.items(), key=lambda item: (item[0][0], ARMS.index(item[0][1]))):
        splits, claims = (sum(int(row[name]) for row in group) for name in ("splits", "claims"))
        true = sum(float(row["true"]) for row in group)
        cost = statistics.mean(float(row["epochs"]) / int(row["search_epochs"]) for row in group)
        shares = (claims / splits, true / claims if claims else math.nan, 1.0 - (claims - true) / splits, cost)
        lines.append((problem, arm, len(group), *(f"{share:.0%}" for share in shares)))
    head = ("problem", "arm", "searches", "claims", "true claims", "searches without a false claim", "extra epochs")
    print_table(head, lines)


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
            for seed in complete_tables(read(args.data / f"tabulated_{problem}.csv.xz").tables)
        ]
        run_missing(args.rows, (KEY, COLUMNS), jobs, lambda *job: rows_of(*job, data=args.data))
    print_results(read_rows(args.rows))


if __name__ == "__main__":
    main()
