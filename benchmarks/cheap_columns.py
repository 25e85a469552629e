"""How much time do the metrics of the set ``robustness`` add to a trial? Compare trials with and without them.

    python benchmarks/cheap_columns.py [--repeats 5] [--epochs 15]

The trials alternate in one process with one thread, and have the default settings of a sweep with tiny-phi. Prints the
CPU seconds of a trial (training, evaluations of the losses after each epoch, and the metrics of the last one), and the
ratio. CPU seconds hardly depend on other processes.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import replace

import torch

from trainables.run.run import UnlearningRun
from trainables.run.workspace import Workspace
from trainables.spec import TrialSpec
from trainables.target.prepare import prepare_target


def cpu_seconds(spec: TrialSpec, workspace: Workspace) -> float:
    """Return the CPU seconds of one trial with all its evaluations."""
    started = time.process_time()
    list(UnlearningRun(spec, workspace))
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=15)
    args = parser.parse_args()
    torch.set_num_threads(1)
    plain = TrialSpec(method="undial+ngdiff", lr=2e-4, epochs=args.epochs)
    arms = {"default": plain, "default,robustness": replace(plain, metrics=("default", "robustness"))}
    workspaces = {name: Workspace(prepare_target(spec), device="cpu") for name, spec in arms.items()}
    for name, spec in arms.items():
        cpu_seconds(spec, workspaces[name])  # the first trial measures the target, too
    times = [{name: cpu_seconds(spec, workspaces[name]) for name, spec in arms.items()} for _ in range(args.repeats)]
    print(f"tiny-phi on authors, {args.epochs} epochs, 1 thread, median of {args.repeats} rounds")
    for name in arms:
        seconds = statistics.median(row[name] for row in times)
        ratio = statistics.median(row[name] / row["default"] for row in times)
        print(f"--metrics {name:<20} {seconds:6.2f} CPU seconds   ratio {ratio:.3f}")


if __name__ == "__main__":
    main()
