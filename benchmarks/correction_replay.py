"""Is the corrected score of the recommended model right on items that it was not selected by?

    python benchmarks/correction_replay.py --items DIR --write docs/data/item_scores.jsonl.xz   # collects per-item logs
    python benchmarks/correction_replay.py --rows FILE.csv                                      # replays searches
    python benchmarks/correction_replay.py --rows FILE.csv --table                              # prints the results

``DIR`` has the per-item logs of ``benchmarks/demo_methods.py --items DIR``. All models with one seed form a table. A
replay draws the epochs of 20 random runs of a table, and a random half of the items of each evaluation set. It selects
a model by the scores on these items, and corrects its scores. The scores of the same model on the other half of the
items are the *fresh* scores. The correction was developed on seed 950, and is judged by the other seeds.
"""

from __future__ import annotations

import json
import lzma
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from study_rows import Row, print_table, read_rows, run_missing, study_parser

from analysis.frontier.correction import ItemScores, Resampling, correct
from analysis.tables.columns import Column, Columns
from analysis.tables.item_logs import Parts

OF = {
    "forget_fact_recall": "forget",
    "verbmem": "forget",
    "forget_fact_recall_rephrased": "forget",
    "retain_fact_recall": "retain",
    "retain_fact_recall_rephrased": "retain",
    "retain_repetition": "retain",
    "utility": "retain",
    "retain_kl": "retain",
}
"""The data set of each metric whose items' values are kept."""
COLUMNS_OF_SCORES = Columns(
    {name: Column(of=of, bounds=(0.0, None if name == "retain_kl" else 1.0)) for name, of in OF.items()}
)
RUNS = 20
KEY = ("seed", "replay")
COLUMNS = (*KEY, "metric", "model", "models", "plain", "corrected", "low", "high", "fresh")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A recorded model: the name of its run, its epoch, and the values of its items by metric."""

    run: str
    epoch: str
    scores: Mapping[str, Parts]


def write(folder: Path, path: Path) -> None:
    """Collect the per-item logs in a folder in one compressed file, with one line per model."""
    lines = []
    for file in sorted(folder.glob("*.json")):
        name, seed, epoch = file.stem.rsplit("-", 2)
        scores = json.loads(file.read_text(encoding="utf-8"))["scores"]
        kept = {metric: scores[metric] for metric in OF if metric in scores}
        lines.append(
            json.dumps({"seed": int(seed), "run": name, "epoch": epoch, "scores": kept}, separators=(",", ":"))
        )
    path.write_bytes(lzma.compress("\n".join(lines).encode()))


@cache
def read(path: Path) -> Mapping[int, Sequence[Candidate]]:
    """Return the recorded models of each seed."""
    tables: defaultdict[int, list[Candidate]] = defaultdict(list)
    for line in lzma.decompress(path.read_bytes()).decode().splitlines():
        content: dict[str, Any] = json.loads(line)
        tables[content["seed"]].append(Candidate(content["run"], content["epoch"], content["scores"]))
    return tables


def on_items(scores: Mapping[str, Parts], items: Mapping[tuple[str, int], Sequence[int]]) -> dict[str, Parts]:
    """Return the values of the items with these indices. The key is the data set and its number of items."""
    return {
        name: [
            {column: [values[index] for index in items[OF[name], len(values)]] for column, values in part.items()}
            for part in parts
        ]
        for name, parts in scores.items()
    }


def means(scores: ItemScores) -> pd.DataFrame:
    """Return the scores of the models on all their items."""
    items = {part.items: np.ones((1, part.totals.shape[1])) for parts in scores.parts.values() for part in parts}
    return pd.DataFrame({name: values[0] for name, values in scores.means(items).items()})


def select(rows: pd.DataFrame) -> int:
    """Return the model that keeps most retained facts, among those that tell at most 10% of the forgotten facts."""
    forgets = rows["forget_fact_recall"].to_numpy() <= 0.1
    score = np.where(forgets, rows["retain_fact_recall"], -1.0 - rows["forget_fact_recall"])
    return int(score.argmax())


def replay(seed: int, index: int, *, data: Path) -> Iterator[dict[str, object]]:
    """Replay one search, and yield a row for each metric of the selected model."""
    rng = np.random.default_rng((seed, index))
    table = read(data)[seed]
    runs = sorted({candidate.run for candidate in table})
    drawn_runs = set(rng.choice(runs, RUNS, replace=False).tolist())
    candidates = [candidate for candidate in table if candidate.run in drawn_runs]
    sizes = {
        (OF[name], len(part["totals"])) for item in candidates for name, parts in item.scores.items() for part in parts
    }
    orders = {key: rng.permutation(key[1]).tolist() for key in sorted(sizes)}
    halves = [
        ItemScores.of(
            [on_items(item.scores, {key: order[start::2] for key, order in orders.items()}) for item in candidates],
            COLUMNS_OF_SCORES,
        )
        for start in (0, 1)
    ]
    rows, fresh = map(means, halves)
    position = select(rows)
    found = correct(rows, Resampling.of(halves[0]), select, position)
    for name, score in found.scores.items():
        values = {"plain": score.value, "corrected": score.corrected, "low": score.low, "high": score.high}
        values["fresh"] = float(fresh[name].iloc[position])
        model = f"{candidates[position].run} after {candidates[position].epoch}"
        yield {"metric": name, "model": model, "models": len(rows), **{key: f"{x:.5g}" for key, x in values.items()}}


def print_results(rows: Iterable[Row]) -> None:
    groups: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["seed"], row["metric"]].append(row)
    table_rows = []
    for (seed, metric), group in groups.items():
        errors = {key: [float(row[key]) - float(row["fresh"]) for row in group] for key in ("plain", "corrected")}
        inside = sum(float(row["low"]) <= float(row["fresh"]) <= float(row["high"]) for row in group)
        cells = [f"{statistics.fmean(values):+.4f} ({statistics.stdev(values):.3f})" for values in errors.values()]
        width = statistics.fmean(float(row["high"]) - float(row["low"]) for row in group)
        table_rows.append((metric, seed, len(group), *cells, f"{inside / len(group):.0%}", f"{width:.3f}"))
    print_table(
        ("metric", "seed", "replays", "plain - fresh (sd)", "corrected - fresh (sd)", "fresh in interval", "width"),
        sorted(table_rows),
    )


def main() -> None:
    parser = study_parser(__doc__, Path("runs/correction_replay.csv"))
    parser.add_argument("--data", type=Path, default=Path("docs/data/item_scores.jsonl.xz"))
    parser.add_argument("--seed", nargs="+", type=int, default=[951, 952])
    parser.add_argument("--replays", type=int, default=100)
    parser.add_argument("--items", type=Path, help="Folder with the per-item logs of benchmarks/demo_methods.py.")
    parser.add_argument("--write", type=Path, help="Collect the per-item logs in this file, and replay nothing.")
    args = parser.parse_args()
    if args.write:
        write(args.items, args.write)
        return
    if not args.table:
        jobs = ((seed, index) for seed in args.seed for index in range(args.replays))
        run_missing(args.rows, (KEY, COLUMNS), jobs, partial(replay, data=args.data))
    print_results(read_rows(args.rows))


if __name__ == "__main__":
    main()
