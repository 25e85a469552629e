"""How long does a sweep over learning rates take with this project, and with a plain script on the same machine?

    python benchmarks/side_by_side.py TOFU [--trials 12] [--epochs 10] [--out DIR]

TOFU is the folder with TOFU's JSON files. The data are TOFU's forget01 and 360 retain rows. The target is tiny-phi,
fine-tuned on these data and cached. The method is gradient difference with c = 0.5, batches of 8 and float32. At the
end of a trial, ROUGE and probability are measured on the forget set. The script (alternatives/trainer.py) runs in two
single-threaded processes, each with half of the learning rates. Both sides start from the same target and use the same
batches in the same order. Each side is timed as a command, from start to exit. The script keeps only models and scores.
This project also writes checkpoints, tables, figures, a report and MLflow runs.

Prints the seconds, the ratio to this project, and the difference of the scores between the sides.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from study_rows import print_table, read_rows

from trainables.batches import EndlessBatches, epoch_batches
from trainables.data.examples import UnlearningData
from trainables.data.tofu import load_tofu
from trainables.models.checkpoints import load_tokenizer
from trainables.spec import TrialSpec
from trainables.target.prepare import prepare_target
from trainables.text.tokens import encode_examples

SCRIPT = Path(__file__).parent / "alternatives" / "trainer.py"
BATCH, RETAIN, C = 8, 360, 0.5
METRICS = ("verbmem", "forget_probability")
Scores = dict[float, dict[str, float]]


@dataclass(frozen=True)
class Task:
    """The learning rates and the number of epochs of both sides, and the folders of the data and of the target."""

    lrs: Sequence[float]
    epochs: int
    data: Path
    target: Path


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("tofu", type=Path)
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        out = args.out or Path(scratch)
        spec = TrialSpec(dataset="tofu", data_dir=str(args.tofu), forget_split="forget01", limit=RETAIN)
        lrs = [float(f"{lr:.3g}") for lr in np.geomspace(1e-5, 3e-3, args.trials)]
        task = Task(lrs, args.epochs, write_data(args.tofu, out / "data"), Path(prepare_target(spec).path))
        write_problem(task, out / "problem.json")
        results: dict[str, tuple[float, Scores]] = {}
        for name, side in SIDES.items():
            folder = out / name
            folder.mkdir(exist_ok=True)
            started = time.perf_counter()
            scores = side(task, folder)
            results[name] = (time.perf_counter() - started, scores)
            print(f"{name:16} {results[name][0]:7.1f} s", flush=True)
    show(results)


def write_data(tofu: Path, folder: Path) -> Path:
    """Write forget01 and the first 360 retain rows as a jsonl data set, with all rows used for evaluation."""
    data = load_tofu(forget_split="forget01", data_dir=tofu, limit=RETAIN)
    folder.mkdir(parents=True, exist_ok=True)
    for name, examples in (("forget", data.forget), ("retain", data.retain), ("retain_eval", data.retain)):
        rows = [{"question": item.question, "answer": item.answer} for item in examples]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def write_problem(task: Task, path: Path) -> None:
    """Write the token ids and the batches of all steps of a trial with seed 0."""
    spec = TrialSpec(dataset="jsonl", data_dir=str(task.data), target_path=str(task.target))
    data = cast(UnlearningData, prepare_target(spec).data)
    tokenizer = load_tokenizer(task.target)
    forget, retain = (encode_examples(tokenizer, examples, max_length=512) for examples in (data.forget, data.retain))
    retain_batches = EndlessBatches([len(item) for item in retain], BATCH, "retain:0")
    steps: list[tuple[Sequence[int], Sequence[int]]] = []
    for epoch in range(task.epochs):
        for batch in epoch_batches([len(item) for item in forget], BATCH, f"forget:0:{float(epoch)}"):
            steps.append((batch, list(retain_batches[len(steps)])))
    content = {
        "target": str(task.target),
        "forget": [{"ids": item.ids, "prompt": item.prompt_length} for item in forget],
        "retain": [{"ids": item.ids, "prompt": item.prompt_length} for item in retain],
        "steps": steps,
        "references": [item.answer for item in data.forget],
        "c": C,
    }
    path.write_text(json.dumps(content))


def this_project(task: Task, out: Path) -> Scores:
    """Run this project. As in the script, trials are evaluated only at their end."""
    options = ["--sampler", "grid", "--method", "gdiff", "--c", C, "--epochs", task.epochs, "--batch-size", BATCH]
    options += ["--eval-every", task.epochs, "--candidates", "last"]
    options += ["--metrics", ",".join(METRICS), "--dataset", "jsonl", "--data-dir", task.data]
    options += ["--target-path", task.target, "--out", out / "sweep", "--tracking-uri", f"sqlite:///{out}/mlflow.db"]
    options += [word for lr in task.lrs for word in ("--lr", f"{lr:g}")]
    run_parallel([[sys.executable, "-m", "sweeper", "pareto", *options]])
    rows = read_rows(out / "sweep" / "trials.csv")
    return {float(row["lr"]): {name: float(row[name]) for name in METRICS} for row in rows}


def script(task: Task, out: Path) -> Scores:
    """Run the script in two single-threaded processes, each with half of the learning rates."""
    problem = out.parent / "problem.json"
    halves = (task.lrs[0::2], task.lrs[1::2])
    commands = [[sys.executable, SCRIPT, problem, out, *half] for half in halves if half]
    run_parallel(commands, OMP_NUM_THREADS="1")
    return {lr: json.loads((out / f"{lr:g}" / "scores.json").read_text()) for lr in task.lrs}


SIDES = {"this-project": this_project, "script": script}


def run_parallel(commands: Sequence[Sequence[object]], **environment: str) -> None:
    """Run commands in parallel until all have ended, and print the output of commands that fail."""
    with ExitStack() as stack:
        logs = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in commands]
        running = [
            subprocess.Popen(list(map(str, command)), env={**os.environ, **environment}, stdout=log, stderr=log)
            for command, log in zip(commands, logs, strict=True)
        ]
        for process, log in zip(running, logs, strict=True):
            if process.wait():
                log.seek(0)
                raise SystemExit(log.read()[-3000:])


def show(results: dict[str, tuple[float, Scores]]) -> None:
    """Print the seconds of both sides, their ratio, and how much their scores differ."""
    (ours, our_scores), (theirs, their_scores) = (results[name] for name in SIDES)
    print_table(("side", "seconds"), [(name, f"{seconds:.1f}") for name, (seconds, _) in results.items()])
    print(f"time of the script / time of this project: {theirs / ours:.2f}")
    for metric in METRICS:
        gap = max(abs(their_scores[lr][metric] - our_scores[lr][metric]) for lr in our_scores)
        print(f"{metric} differs by at most {gap:.1e}")


if __name__ == "__main__":
    main()
