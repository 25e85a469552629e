"""What does each method do to tiny-phi with the default data, and what does it cost?

    python benchmarks/methods_table.py --rows runs/methods.csv --page docs/methods.md

Runs every method of the registry once, each at the model's default learning rate with its options at their defaults,
and writes a row per run; started again it goes on where it was. The page is written anew from the rows.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

from trainables.methods import method_names, parse_method
from trainables.models.registry import MODELS
from trainables.spec import TrialSpec
from trainables.weightings import Needs

METRICS = ("forget_loss", "retain_loss", "verbmem", "utility")
COLUMNS = ("method", "objective", "weighting", "status", *METRICS, "seconds", "gradient_MB", "key")


def spec_of(method: str, epochs: int) -> TrialSpec:
    """The run of a method: the model's own settings, the method's defaults."""
    info = MODELS["tiny-phi"]
    options = tuple(sorted(parse_method(method).resolve({}).items()))
    shared = {"batch_size": info.batch_size, "eval_batch_size": info.eval_batch_size, "dataset": info.dataset}
    return replace(TrialSpec(**shared), method=method, options=options, lr=info.lr, epochs=epochs)  # type: ignore[arg-type]


def row_of(spec: TrialSpec) -> dict[str, object]:
    """The outcome of one run; ``gradient_MB`` counts the gradient buffers the step holds at once, 4 bytes a weight."""
    import torch

    from trainables.run.run import UnlearningRun
    from trainables.target.prepare import prepare_target
    from trainables.worker import worker_workspace

    torch.set_num_threads(1)
    target = prepare_target(spec)
    run = UnlearningRun(replace(spec, target_key=target.key), worker_workspace(target, "cpu"))
    outcome = list(run)[-1]
    method = spec.parsed_method
    buffers = 2 if method.weighting.needs in (Needs.GRAMIAN, Needs.GRADIENTS) else 1
    held = buffers * sum(parameter.numel() * parameter.element_size() for parameter in run.parameters)
    known = {**outcome.losses, **outcome.final}
    return {
        "method": spec.method,
        "objective": method.objective.name,
        "weighting": method.weighting.name,
        "status": str(outcome.status),
        **{name: known.get(name, "") for name in METRICS},
        "seconds": outcome.train_seconds,
        "gradient_MB": held / 1e6,
        "key": spec.spec_hash,
    }


def page(rows: list[dict[str, str]], epochs: int) -> str:
    """The rows as a page of Markdown, in the order of the registry."""
    info = MODELS["tiny-phi"]
    order = {name: place for place, name in enumerate(method_names())}
    lines = [
        "# Every method on tiny-phi",
        "",
        f"One run of each method on `tiny-phi` and its default data (`{info.dataset}`): {epochs} epochs, batch size "
        f"{info.batch_size}, AdamW, lr {info.lr:g}, seed 0, every option at its default. Losses are in nats per token.",
        "No learning rate was tuned, so the table says what a method does at one common rate and what it costs, not",
        "which method is best; a sweep compares them.",
        "",
        f"Made by `python benchmarks/methods_table.py --epochs {epochs}`.",
        "`seconds` is the training alone on one CPU thread. Gradient MB is computed: the gradient buffers",
        "a step holds at once, 4 bytes a weight.",
        "`python -m sweeper list methods` has the formulas and citations.",
        "",
        "How to read it: a forget loss above that of a random guess, ln of the vocabulary's size, means that a",
        "method has run away, not that it has forgotten more. Of two methods with like forget loss and verbmem",
        "(low: little is recited), the one with the lower retain loss and the higher utility has kept more.",
        "",
        "| method | objective | weighting | forget loss | retain loss | verbmem | utility | seconds | gradient MB |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda row: order.get(row["method"], len(order))):
        name = row["method"] + ("" if row["status"] == "finished" else f" ({row['status']})")
        numbers = [f"{float(row[key]):.3g}" if row[key] else "" for key in (*METRICS, "seconds", "gradient_MB")]
        lines.append("| " + " | ".join([name, row["objective"], row["weighting"], *numbers]) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    from trainables.target.prepare import prepare_target

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, default=Path("runs/methods.csv"))
    parser.add_argument("--page", type=Path, default=Path("docs/methods.md"))
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--methods", nargs="+", default=list(method_names()), help="only these")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"  # the workers inherit it
    given.rows.parent.mkdir(parents=True, exist_ok=True)
    specs = [spec_of(name, given.epochs) for name in given.methods]
    done: list[dict[str, str]] = []
    if given.rows.is_file():
        with given.rows.open(newline="") as file:
            done = list(csv.DictReader(file))
    finished = {row["key"] for row in done}
    with given.rows.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if not done:
            writer.writeheader()
        waiting = [spec for spec in specs if spec.spec_hash not in finished]
        if waiting:
            prepare_target(waiting[0])  # once, before two workers would both make it
        with ProcessPoolExecutor(given.workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            futures = {pool.submit(row_of, spec): spec for spec in waiting}
            for number, future in enumerate(as_completed(futures), start=1):
                writer.writerow(future.result())
                file.flush()
                print(f"{number}/{len(waiting)} {futures[future].method}", flush=True)
    wanted = {spec.spec_hash for spec in specs}
    with given.rows.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["key"] in wanted]
    given.page.write_text(page(rows, given.epochs), encoding="utf-8")


if __name__ == "__main__":
    main()
