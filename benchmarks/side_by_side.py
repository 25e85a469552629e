"""Compare the time of a sweep over learning rates with this project and with plain scripts, on one machine.

    python benchmarks/side_by_side.py TOFU [--trials 12] [--epochs 10] [--only NAME ...] [--out DIR]

TOFU is the folder with TOFU's JSON files. The data are TOFU's forget01 and 360 retain rows. The target is tiny-phi,
fine-tuned on them (cached). The method is gradient difference with c = 0.5, batches of 8 and float32. At the end of a
trial, ROUGE and probability are measured on the forget set. Every side starts from the same folder, uses the same
batches in the same order, and has two cores. Each side is timed as a command, from start to exit. The alternatives keep
only the models or scores of the trials. This project also writes checkpoints, tables, figures, a report and MLflow
runs; the side ``with-curves`` also measures the losses of every epoch.

Prints the seconds, the ratio to this project, and how much the scores differ between the sides.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from trainables.batches import EndlessBatches, epoch_batches
from trainables.data.tofu import QUESTIONS_PER_AUTHOR, load_tofu
from trainables.models.checkpoints import load_tokenizer
from trainables.spec import TrialSpec
from trainables.target.prepare import prepare_target
from trainables.text.tokens import encode_examples

ALTERNATIVES = Path(__file__).parent / "alternatives"
BATCH, RETAIN, C = 8, 360, 0.5
Scores = dict[float, dict[str, float]]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("tofu", type=Path)
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--only", nargs="*", choices=sorted(SIDES), default=list(SIDES))
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        out = chosen.out or Path(scratch)
        out.mkdir(parents=True, exist_ok=True)
        data, target = write_data(chosen.tofu, out), made_target(chosen.tofu)
        problem = write_problem(data, target, out, epochs=chosen.epochs)
        lrs = [float(f"{lr:.3g}") for lr in np.geomspace(1e-5, 3e-3, chosen.trials)]
        found: dict[str, tuple[float, Scores]] = {}
        for name in chosen.only:
            folder = out / name
            folder.mkdir(exist_ok=True)
            started = time.perf_counter()
            scores = SIDES[name](problem, folder, lrs, data, target, chosen.epochs)
            found[name] = (time.perf_counter() - started, scores)
            print(f"{name:16} {found[name][0]:7.1f} s", flush=True)
    show(found)


def write_data(tofu: Path, out: Path) -> Path:
    """Write forget01 and the first 360 retain rows as a jsonl data set, with all rows used for evaluation."""
    data = load_tofu(forget_split="forget01", data_dir=tofu, limit=RETAIN)
    assert len(data.retain) == RETAIN // QUESTIONS_PER_AUTHOR * QUESTIONS_PER_AUTHOR
    folder = out / "data"
    folder.mkdir(exist_ok=True)
    for name, examples in (("forget", data.forget), ("retain", data.retain), ("retain_eval", data.retain)):
        rows = [{"question": item.question, "answer": item.answer} for item in examples]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def made_target(tofu: Path) -> Path:
    spec = TrialSpec(dataset="tofu", data_dir=str(tofu), forget_split="forget01", limit=RETAIN)
    return Path(prepare_target(spec).path)


def write_problem(data: Path, target: Path, out: Path, *, epochs: int) -> Path:
    """Write the token ids and the batches of all steps of a trial with seed 0."""
    spec = TrialSpec(dataset="jsonl", data_dir=str(data), target_path=str(target))
    known = prepare_target(spec).data
    tokenizer = load_tokenizer(target)
    forget, retain = (encode_examples(tokenizer, part, max_length=512) for part in (known.forget, known.retain))
    endless = EndlessBatches([len(item) for item in retain], BATCH, "retain:0")
    steps: list[tuple[Sequence[int], Sequence[int]]] = []
    for epoch in range(epochs):
        for batch in epoch_batches([len(item) for item in forget], BATCH, f"forget:0:{float(epoch)}"):
            steps.append((batch, list(endless[len(steps)])))
    content = {
        "target": str(target),
        "forget": [{"ids": item.ids, "prompt": item.prompt_length} for item in forget],
        "retain": [{"ids": item.ids, "prompt": item.prompt_length} for item in retain],
        "steps": steps,
        "references": [item.answer for item in known.forget],
        "c": C,
    }
    path = out / "problem.json"
    path.write_text(json.dumps(content))
    return path


def with_curves(
    problem: Path, out: Path, lrs: Sequence[float], data: Path, target: Path, epochs: int, *more: object
) -> Scores:
    command = [sys.executable, "-m", "sweeper", "pareto", "--sampler", "grid", "--method", "gdiff", "--c", str(C)]
    command += [word for lr in lrs for word in ("--lr", f"{lr:g}")]
    command += ["--epochs", str(epochs), "--batch-size", str(BATCH), "--metrics", "verbmem,forget_probability"]
    command += [
        "--dataset",
        "jsonl",
        "--data-dir",
        str(data),
        "--target-path",
        str(target),
        "--out",
        str(out / "sweep"),
    ]
    command += ["--tracking-uri", f"sqlite:///{out}/mlflow.db"]
    together([[*command, *more]], threads=None)
    with (out / "sweep" / "trials.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {float(row["lr"]): {name: float(row[name]) for name in ("verbmem", "forget_probability")} for row in rows}


def this_project(*arguments: Any) -> Scores:
    """Run this project, with losses measured only at the end of a trial, as in the alternatives."""
    return with_curves(*arguments, "--eval-every", arguments[-1], "--candidates", "last")


def two_processes(script: str) -> Callable[..., Scores]:
    """Run half of the learning rates in each of two processes with one thread."""

    def side(problem: Path, out: Path, lrs: Sequence[float], *_: object) -> Scores:
        halves = (lrs[0::2], lrs[1::2])
        program = [sys.executable, ALTERNATIVES / script, problem, out]
        together([[*program, *half] for half in halves if half], threads=1)
        return read_scores(out, lrs)

    return side


def one_process(script: str, *, threads: int) -> Callable[..., Scores]:
    def side(problem: Path, out: Path, lrs: Sequence[float], *_: object) -> Scores:
        together([[sys.executable, ALTERNATIVES / script, problem, out, *lrs]], threads=threads)
        return read_scores(out, lrs)

    return side


def shell_loop(problem: Path, out: Path, lrs: Sequence[float], *_: object) -> Scores:
    """For each learning rate, run a process to train and a process to evaluate, in two parallel shell loops."""
    program = shlex.join([sys.executable, str(ALTERNATIVES / "trainer.py"), str(problem), str(out)])
    loops = [
        f"for lr in {' '.join(map(str, half))}; do {program} $lr --train-only && {program} $lr --evaluate-only; done"
        for half in (lrs[0::2], lrs[1::2])
        if half
    ]
    together([["sh", "-c", loop] for loop in loops], threads=1)
    return read_scores(out, lrs)


SIDES: dict[str, Callable[..., Scores]] = {
    "this-project": this_project,
    "with-curves": with_curves,
    "trainer-2-procs": two_processes("trainer.py"),
    "trainer-1-proc": one_process("trainer.py", threads=2),
    "shell-loop": shell_loop,
    "optuna-threads": one_process("optuna_threads.py", threads=1),
    "ray-function": one_process("ray_function.py", threads=1),
}


def together(commands: Sequence[Sequence[object]], *, threads: int | None) -> None:
    """Run commands in parallel until all have ended, and print the output of commands that fail."""
    environment = {**os.environ, **({} if threads is None else {"OMP_NUM_THREADS": str(threads)})}
    with ExitStack() as stack:
        logs = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in commands]
        running = [
            subprocess.Popen([str(word) for word in command], env=environment, stdout=log, stderr=subprocess.STDOUT)
            for command, log in zip(commands, logs, strict=True)
        ]
        for process, log in zip(running, logs, strict=True):
            if process.wait():
                log.seek(0)
                raise SystemExit(log.read()[-3000:])


def read_scores(out: Path, lrs: Sequence[float]) -> Scores:
    return {lr: json.loads((out / f"{lr:g}" / "scores.json").read_text()) for lr in lrs}


def show(found: dict[str, tuple[float, Scores]]) -> None:
    ours = found.get("this-project")
    print(f"\n{'':16} {'seconds':>8} {'a trial':>8} {'ratio':>6}  scores apart by at most")
    for name, (seconds, scores) in found.items():
        ratio = f"{seconds / ours[0]:6.2f}" if ours else ""
        apart = ""
        if ours and name != "this-project":
            gaps = {
                metric: max(abs(values[metric] - ours[1][lr][metric]) for lr, values in scores.items())
                for metric in ("verbmem", "forget_probability")
            }
            apart = ", ".join(f"{metric} {gap:.1e}" for metric, gap in gaps.items())
        print(f"{name:16} {seconds:8.1f} {seconds / len(scores):8.1f} {ratio}  {apart}")


if __name__ == "__main__":
    main()
