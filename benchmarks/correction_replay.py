"""Is the corrected score of the recommended model right on items that it was not selected by?

    python benchmarks/correction_replay.py --items DIR --write docs/data/item_scores.jsonl.xz   # collects per-item logs
    python benchmarks/correction_replay.py --rows FILE.csv                                      # replays searches
    python benchmarks/correction_replay.py --rows FILE.csv --table                              # prints the results

``DIR`` has the per-item logs of ``benchmarks/demo_methods.py --items DIR``. All models with one seed form a table. A
replay draws the epochs of 10 random runs of a table, and a random half of the items of each evaluation set. It selects
a model by the criterion ``usable`` on these items, and corrects its scores. The scores of the same model on the other
half of the items are the *fresh* scores. The correction was developed on seed 950, and is judged by the other seeds,
which have other data.
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

from analysis.frontier.choice import Choice, choose
from analysis.frontier.correction import ItemScores, Resampling, correct
from analysis.frontier.criterion import criterion_of
from analysis.tables.columns import Columns
from analysis.tables.item_logs import Parts
from analysis.tables.sweep_file import SweepFile
from sweeper.store.columns import column_dictionary

METRICS = (
    *("forget_fact_recall", "forget_fact_recall_rephrased", "forget_loops", "verbmem"),
    *("retain_fact_recall", "retain_fact_recall_rephrased", "neighbour_fact_recall"),
    *("retain_kl", "retain_repetition", "retain_longest_loop", "utility"),
)
"""The metrics whose items' values are kept: those of the criterion ``usable``, and the primary metrics."""
RUNS = 10
KEY = ("seed", "replay")
COLUMNS = (*KEY, "metric", "model", "outcome", "models", "ties", "plain", "corrected", "low", "high", "fresh")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A recorded model: the name of its run, its epoch, and the values of its items by metric."""

    run: str
    epoch: str
    scores: Mapping[str, Parts]


def write(folder: Path, path: Path) -> None:
    """Collect the per-item logs in a folder in one compressed file: a line per seed, and a line per model."""
    from demo_methods import spec_of

    from trainables.target.prepare import prepare_target

    lines: list[dict[str, Any]] = []
    for file in sorted(folder.glob("*.json")):
        name, seed, epoch = file.stem.rsplit("-", 2)
        scores = json.loads(file.read_text(encoding="utf-8"))["scores"]
        kept = {metric: scores[metric] for metric in METRICS}
        lines.append({"seed": int(seed), "run": name, "epoch": epoch, "scores": kept})
    for seed in sorted({line["seed"] for line in lines}):
        baseline = prepare_target(spec_of("gdiff", lr="1e-3", seed=seed)).baseline
        lines.insert(0, {"seed": seed, "baseline": {name: baseline[name] for name in METRICS}})
    texts = [json.dumps(line, separators=(",", ":")) for line in lines]
    path.write_bytes(lzma.compress("\n".join(texts).encode()))


@cache
def read(path: Path) -> tuple[Mapping[int, Sequence[Candidate]], Mapping[int, Mapping[str, float]]]:
    """Return the recorded models of each seed, and the scores of each seed's target."""
    tables: defaultdict[int, list[Candidate]] = defaultdict(list)
    baselines: dict[int, Mapping[str, float]] = {}
    for line in lzma.decompress(path.read_bytes()).decode().splitlines():
        content: dict[str, Any] = json.loads(line)
        if "baseline" in content:
            baselines[content["seed"]] = content["baseline"]
        else:
            tables[content["seed"]].append(Candidate(content["run"], content["epoch"], content["scores"]))
    return tables, baselines


def halves_of(candidates: Sequence[Candidate], rng: np.random.Generator, columns: Columns) -> list[ItemScores]:
    """Return the values of the items in each half of a random split of the items of every evaluation set."""
    sizes = {
        (str(columns[name].of), len(part["totals"]))
        for item in candidates
        for name, parts in item.scores.items()
        for part in parts
    }
    orders = {key: rng.permutation(key[1]).tolist() for key in sorted(sizes)}

    def half(name: str, parts: Parts, start: int) -> Parts:
        order = orders[str(columns[name].of), len(parts[0]["totals"])][start::2]
        return [{key: [values[index] for index in order] for key, values in part.items()} for part in parts]

    return [
        ItemScores.of(
            [{name: half(name, parts, start) for name, parts in item.scores.items()} for item in candidates], columns
        )
        for start in (0, 1)
    ]


def means(scores: ItemScores) -> pd.DataFrame:
    """Return the scores of the models on all their items."""
    items = {part.items: np.ones((1, part.totals.shape[1])) for parts in scores.parts.values() for part in parts}
    return pd.DataFrame({name: values[0] for name, values in scores.means(items).items()})


def replay(seed: int, index: int, *, data: Path) -> Iterator[dict[str, object]]:
    """Replay one search, and yield a row for each metric of the selected model."""
    rng = np.random.default_rng((seed, index))
    tables, baselines = read(data)
    columns = Columns.from_dict(column_dictionary())
    runs = sorted({candidate.run for candidate in tables[seed]})
    drawn_runs = set(rng.choice(runs, min(RUNS, len(runs)), replace=False).tolist())
    candidates = [candidate for candidate in tables[seed] if candidate.run in drawn_runs]
    known, other = halves_of(candidates, rng, columns)
    rows, fresh = means(known), means(other)
    items = {name: float(parts[0].known_items) for name, parts in known.parts.items()}
    sweep = SweepFile(name="", columns=columns, baseline=baselines[seed], items=items)
    criterion, resampling = criterion_of(sweep), Resampling.of(known)

    def select(table: pd.DataFrame) -> Choice:
        return choose(table, criterion, (), noise=resampling.noise, runners_up=0)

    choice = select(rows)
    if choice.index is None:
        return
    found = correct(rows, resampling, lambda table: select(table).index, choice.index)
    model = candidates[choice.index]
    for name, score in found.items():
        values = {"plain": score.value, "corrected": score.corrected, "low": score.low, "high": score.high}
        values["fresh"] = float(fresh[name].iloc[choice.index])
        yield {
            "metric": name,
            "model": f"{model.run} after {model.epoch}",
            "outcome": str(choice.outcome),
            "models": len(rows),
            "ties": len(choice.ties),
            **{key: f"{value:.5g}" for key, value in values.items()},
        }


def print_results(rows: Iterable[Row]) -> None:
    groups: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["metric"], row["seed"]].append(row)
    table_rows = []
    for (metric, seed), group in sorted(groups.items()):
        errors = {key: [float(row[key]) - float(row["fresh"]) for row in group] for key in ("plain", "corrected")}
        inside = sum(float(row["low"]) <= float(row["fresh"]) <= float(row["high"]) for row in group)
        cells = [f"{statistics.fmean(values):+.4f} ({statistics.stdev(values):.3f})" for values in errors.values()]
        width = statistics.fmean(float(row["high"]) - float(row["low"]) for row in group)
        table_rows.append((metric, seed, len(group), *cells, f"{inside / len(group):.0%}", f"{width:.3f}"))
    print_table(
        ("metric", "seed", "replays", "plain - fresh (sd)", "corrected - fresh (sd)", "fresh in interval", "width"),
        table_rows,
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
