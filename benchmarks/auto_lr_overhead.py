"""How much time does AutoLR add to a step? Compare a fixed rate and rules of AutoLR in one process.

    python benchmarks/auto_lr_overhead.py [--steps 100] [--repeats 5]

Prints the seconds per step and the ratio to the fixed rate. A backward pass counts as two forward passes, so ten steps
with two losses cost 60 forward passes. An update of the paper's rule adds two forward passes (3.3%), and two more for
the logged forget loss. The rule ``curvature`` stops after its first accepted update. Each of its updates adds 6 to 26
forward passes.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import replace

import torch

from trainables.run.run import UnlearningRun
from trainables.run.workspace import Workspace
from trainables.spec import TrialSpec
from trainables.target.prepare import prepare_target


def seconds_per_step(spec: TrialSpec, workspace: Workspace) -> float:
    """Return the training seconds per step of one run, without evaluations."""
    report = list(UnlearningRun(spec, workspace))[-1]
    return report.timers.train_seconds / report.step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    fixed = TrialSpec(method="ngdiff", lr=1e-5, epochs=1000, max_steps=args.steps)
    workspace = Workspace(prepare_target(fixed), device="cpu")
    # The rule gen-official changes the rate slowly, so the training steps are like those with the fixed rate.
    official = replace(fixed, auto_lr="gen-official")
    arms = {
        "fixed lr": fixed,
        "gen-official": replace(official, auto_lr_log_forget=False),
        "with L_F logged": official,
        "curvature": replace(fixed, auto_lr="curvature", auto_lr_log_forget=False),
    }
    seconds_per_step(fixed, workspace)
    times = [{name: seconds_per_step(spec, workspace) for name, spec in arms.items()} for _ in range(args.repeats)]
    print(f"tiny-phi, batch 8, 1 thread, {args.steps} steps, median of {args.repeats} rounds")
    for name in arms:
        seconds = statistics.median(row[name] for row in times)
        ratio = statistics.median(row[name] / row["fixed lr"] for row in times)
        print(f"{name:<20} {seconds * 1e3:8.2f} ms per step   ratio {ratio:.3f}")


if __name__ == "__main__":
    main()
