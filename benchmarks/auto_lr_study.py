"""Which AutoLR rule is independent of its start, and which comes closest to the best fixed learning rate?

    python benchmarks/auto_lr_study.py --rows runs/auto_lr_study.csv

Runs methods x (fixed rates, AutoLR rules x starting rates) x seeds on two model sizes with the default data, and
appends a row per run. A second call runs what is missing. ``benchmarks/auto_lr_study_table.py`` reads the rows.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

from trainables.models.registry import TINY_RECIPE, TargetRecipe
from trainables.spec import TrialSpec

METHODS = (("gdiff", (("c", 0.95),)), ("ngdiff", ()), ("lossnorm", ()), ("npo+ngdiff", ()))
FIXED = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
STARTS = (1e-5, 1e-4, 1e-3, 1e-2)
RULES = (
    *((smoothing, probe, 1) for probe in ("same", "fresh") for smoothing in ("paper", "clip", "official", "search")),
    ("paper", "fresh", 4),
    ("clip", "fresh", 4),
    ("search", "fresh", 2),
    ("search", "fresh", 4),
    ("trust", "fresh", 4),
)
SIZES = ("tiny-phi", "small-phi")
COLUMNS = (
    *("size", "method", "rule", "lr", "seed", "status", "forget_loss", "forget_loss_capped", "retain_loss"),
    *("steps", "last_lr", "updates", "kept", "train_seconds"),
)


def recipe(size: str) -> TargetRecipe:
    """Return the recipe for the target of a model size, which is fine-tuned until it has memorised the data."""
    return TINY_RECIPE if size == "tiny-phi" else replace(TINY_RECIPE, lr=1e-3)


def base(size: str, folder: Path) -> TrialSpec:
    """Return the settings that all runs of one model size share."""
    spec = TrialSpec(batch_size=4, epochs=15, auto_lr_log_forget=False, auto_lr_probe_batches=1)
    return spec if size == "tiny-phi" else replace(spec, model=size, model_path=str(folder))


def make_small_phi(folder: Path) -> None:
    """Return a randomly initialised Phi of about 7M parameters with the tokenizer of tiny-phi."""
    import torch
    from transformers import PhiForCausalLM

    from trainables.data import load_data
    from trainables.models.checkpoints import save_model
    from trainables.models.tiny import make_tiny, train_tokenizer

    data = load_data("authors")
    tokenizer = train_tokenizer(data.full)
    config = make_tiny("tiny-phi", tokenizer).config
    config.hidden_size, config.intermediate_size, config.num_hidden_layers = 256, 1024, 8
    torch.manual_seed(0)
    save_model(PhiForCausalLM(config), tokenizer, folder)


RULE_NAMES = tuple(f"{smoothing}/{probe}" + (f"x{n}" if n > 1 else "") for smoothing, probe, n in RULES)


def jobs(sizes: Sequence[str], seeds: int, rules: Sequence[str]) -> Iterator[tuple[str, str, str, float, int]]:
    """Return ``(size, method, rule, lr, seed)`` with the seeds outermost, so that an interrupted study is balanced."""
    arms = [("fixed", FIXED), *((rule, STARTS) for rule in rules)]
    for seed, size in itertools.product(range(seeds), sizes):
        for (rule, rates), (method, _) in itertools.product(arms, METHODS):
            for lr in rates:
                yield size, method, rule, lr, seed


def run(job: tuple[str, str, str, float, int], folder: str) -> dict[str, object]:
    """Make one run and return its row."""
    import torch

    from trainables.run.run import UnlearningRun
    from trainables.target.prepare import prepare_target
    from trainables.worker import worker_workspace

    torch.set_num_threads(1)
    size, method, rule, lr, seed = job
    spec = replace(base(size, Path(folder)), method=method, options=dict(METHODS)[method], lr=lr, seed=seed)
    if rule != "fixed":
        smoothing, _, probe = rule.partition("/")
        probe, _, batches = probe.partition("x")
        spec = replace(spec, auto_lr="on", auto_lr_smoothing=smoothing, auto_lr_probe=probe)
        spec = replace(spec, auto_lr_probe_batches=int(batches or 1))
    target = prepare_target(spec, recipe=recipe(size))
    unlearning = UnlearningRun(replace(spec, target_key=target.key), worker_workspace(target, "cpu"))
    report = list(unlearning)[-1]
    counts = unlearning.auto_lr.counts
    return {
        **dict(zip(("size", "method", "rule", "lr", "seed"), job, strict=True)),
        **{name: report.losses.get(name) for name in ("forget_loss", "forget_loss_capped", "retain_loss")},
        "status": str(report.status),
        "steps": report.step,
        "last_lr": unlearning.optimizer.param_groups[0]["lr"],
        "updates": counts["updates"],
        "kept": sum(counts.values()) - counts["updates"] - counts["clipped"],
        "train_seconds": report.train_seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, default=Path("runs/auto_lr_study.csv"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sizes", nargs="+", default=SIZES, choices=SIZES)
    parser.add_argument("--rules", nargs="+", default=RULE_NAMES, choices=RULE_NAMES)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    given.rows.parent.mkdir(parents=True, exist_ok=True)
    folder = given.rows.parent / "small-phi"
    if "small-phi" in given.sizes and not folder.exists():
        make_small_phi(folder)
    from trainables.target.prepare import prepare_target

    for size in given.sizes:
        prepare_target(base(size, folder), recipe=recipe(size))
    done = set()
    if given.rows.is_file():
        with given.rows.open(newline="") as file:
            done = {(r["size"], r["method"], r["rule"], float(r["lr"]), int(r["seed"])) for r in csv.DictReader(file)}
    todo = [job for job in jobs(given.sizes, given.seeds, given.rules) if job not in done]
    context = multiprocessing.get_context("spawn")
    with given.rows.open("a", newline="") as file, ProcessPoolExecutor(given.workers, context) as pool:
        writer = csv.DictWriter(file, COLUMNS)
        if not done:
            writer.writeheader()
        started = time.time()
        waiting = [pool.submit(run, job, str(folder)) for job in todo]
        for number, future in enumerate(as_completed(waiting), start=1):
            writer.writerow(future.result())
            file.flush()
            left = (time.time() - started) / number * (len(todo) - number)
            print(f"{number}/{len(todo)}, {left / 60:.0f} min left", end="\r", flush=True)


if __name__ == "__main__":
    main()
