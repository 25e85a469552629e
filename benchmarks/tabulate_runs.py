"""Make real runs on a fine grid and record the losses of every epoch, for benchmarks/search_replay.py.

    python benchmarks/tabulate_runs.py --rows runs/tabulated.csv --tofu DIR_WITH_TOFUS_FILES
    python benchmarks/tabulate_runs.py --rows runs/tabulated.csv --write docs/data

Runs every combination of method, learning rate, seed and problem with tiny-phi, batch size 8 and one thread. Each run
adds a row per epoch. A second call makes only the missing runs. All runs of a seed are made before the runs of the next
seed, and problems alternate, so that an interrupted grid is balanced. ``--write`` makes one compressed table per
problem. Pairs of a rate and a seed that some method has not run are left out.

The problem ``authors`` uses the default data. The problem ``tofu`` uses the 20 shortest rows of TOFU's forget01 and the
100 shortest of the first 400 rows of retain99. The forget losses use the whole forget set, and the retain loss uses 20
evenly spread examples.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pandas as pd
from study_rows import run_missing

from trainables.spec import TrialSpec

if TYPE_CHECKING:
    from trainables.run.workspace import Workspace

METHODS = (*(f"gdiff-{c:g}" for c in (0.1, 0.68, 0.89, 0.96, 0.986, 0.995)), "ngdiff", "npo+ngdiff", "pcgrad")
"""The values of c are evenly spaced in log(1 - c) over the range that is searched."""
RATES = (3e-5, 7.1e-5, 1.7e-4, 4e-4, 9.5e-4, 2.2e-3, 5.3e-3, 1.3e-2, 3e-2)
RETAIN_SAMPLE = 20
KEY = ("trial_id",)
COLUMNS = (
    *("trial_id", "problem", "method", "c", "lr", "seed", "model", "epochs", "epoch", "step", "status"),
    *("forget_loss", "forget_loss_capped", "retain_loss", "random_guess"),
)


def write_tofu_rows(tofu: Path, folder: Path) -> None:
    """Write the rows of TOFU with the shortest questions and answers, in the order of TOFU's files."""
    for name, file, first, count in (("forget", "forget01", None, 20), ("retain", "retain99", 400, 100)):
        lines = (tofu / f"{file}.json").read_text(encoding="utf-8").splitlines()[:first]
        rows = [json.loads(line) for line in lines]
        order = sorted(range(len(rows)), key=lambda index: len(rows[index]["question"]) + len(rows[index]["answer"]))
        content = "".join(f"{lines[index]}\n" for index in sorted(order[:count]))
        (folder / f"{name}.jsonl").write_text(content, encoding="utf-8")


@cache
def prepare(problem: str, tofu: Path | None) -> tuple[TrialSpec, Workspace]:
    """Return the spec and the workspace of a problem. The target is fine-tuned or is loaded from the cache."""
    from trainables.data.examples import UnlearningData
    from trainables.run.workspace import Workspace
    from trainables.target.prepare import prepare_target

    # Only the losses are recorded, so the metric that is measured at the end of a run is a cheap one.
    spec = TrialSpec(model="tiny-phi", batch_size=8, epochs=10, metrics=("retain_probability",))
    if problem == "tofu":
        if tofu is None:
            raise SystemExit("the problem tofu needs --tofu DIR, the folder with TOFU's files")
        folder = Path(tempfile.mkdtemp(prefix="tofu-rows-"))
        write_tofu_rows(tofu, folder)
        spec = replace(spec, dataset="jsonl", data_dir=str(folder))
    target = prepare_target(spec, device="cpu")
    data = cast(UnlearningData, target.data)
    interval = max(1, len(data.retain) // RETAIN_SAMPLE)
    data = replace(data, retain_eval=data.retain[::interval][:RETAIN_SAMPLE])
    return spec, Workspace(replace(target, data=data), device="cpu")


def run(trial_id: str, *, tofu: Path | None) -> Iterator[dict[str, object]]:
    """Make the run with the id ``PROBLEM/METHOD/RATE/SEED``, and yield a row per epoch."""
    import torch

    from trainables.run.run import UnlearningRun

    torch.set_num_threads(1)
    problem, name, lr, seed = trial_id.split("/")
    method, _, c = name.partition("-")
    common, workspace = prepare(problem, tofu)
    spec = replace(common, method=method, options=(("c", float(c)),) if c else (), lr=float(lr), seed=int(seed))
    guess = workspace.evaluator(batch_size=spec.eval_batch_size).random_guess
    settings = {"problem": problem, "method": method, "c": c, "lr": lr, "seed": seed, "random_guess": guess}
    for report in UnlearningRun(spec, workspace):
        losses = {} if report.status == "diverged" else report.losses
        progress = {"epoch": int(report.epoch), "step": report.step, "status": str(report.status or "")}
        yield {**settings, "model": spec.model, "epochs": spec.epochs, **progress, **losses}


def write(path: Path, folder: Path) -> None:
    """Write a sorted table per problem, without the pairs of a rate and a seed that some method has not run."""
    rows = pd.read_csv(path, dtype=str, keep_default_na=False)
    complete = rows.groupby(["problem", "seed", "lr"])["trial_id"].transform("nunique") == len(METHODS)
    order = ["seed", "method", "c", "lr", "epoch"]
    for problem, table in rows[complete].groupby("problem"):
        table = table.sort_values(order, key=lambda cells: cells if cells.name == "method" else pd.to_numeric(cells))
        table.to_csv(folder / f"tabulated_{problem}.csv.xz", index=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, default=Path("runs/tabulated.csv"))
    parser.add_argument("--seed", nargs="+", type=int, default=[0, 1, 2, 3, 4, 5])
    parser.add_argument("--problem", nargs="+", default=["authors", "tofu"], choices=("authors", "tofu"))
    parser.add_argument("--tofu", type=Path, help="Folder with TOFU's files, of which forget01 and retain99 are read.")
    parser.add_argument("--write", type=Path, help="Write the compressed tables into this folder and run nothing.")
    args = parser.parse_args()
    if args.write:
        write(args.rows, args.write)
        return
    # Every second rate comes first, so that an interrupted grid covers the whole range.
    grid = itertools.product(args.seed, (*RATES[::2], *RATES[1::2]), METHODS, args.problem)
    jobs = ((f"{problem}/{method}/{lr:g}/{seed}",) for seed, lr, method, problem in grid)
    run_missing(args.rows, (KEY, COLUMNS), jobs, partial(run, tofu=args.tofu))


if __name__ == "__main__":
    main()
