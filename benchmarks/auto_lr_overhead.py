"""What AutoLR adds to a step: the same run with and without it, side by side, in one process.

    python benchmarks/auto_lr_overhead.py [--probe same|fresh] [--steps 100] [--repeats 5]

Prints seconds per step of both and their ratio. Two extra forward passes every 10 steps of two forward and two
backward passes (a backward counted as two forwards) are 2 / 60 = 3.3%; a fresh probe batch takes three, 5%.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import replace

import torch

from trainables.run import UnlearningRun
from trainables.spec import TrialSpec
from trainables.target import prepare_target
from trainables.workspace import Workspace


def seconds_per_step(spec: TrialSpec, workspace: Workspace) -> float:
    """Training seconds per step of one run, without evaluations."""
    report = list(UnlearningRun(spec, workspace))[-1]
    return report.train_seconds / report.step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--probe", default="fresh", choices=("same", "fresh"))
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(1)
    # A small fixed rate, no evaluation between: what is timed is the step itself.
    plain = TrialSpec(method="ngdiff", lr=1e-6, epochs=1000, max_steps=given.steps, auto_lr_probe=given.probe)
    workspace = Workspace(prepare_target(plain), device="cpu")
    auto = replace(plain, auto_lr="on", auto_lr_smoothing="official")
    seconds_per_step(plain, workspace)
    pairs = [(seconds_per_step(plain, workspace), seconds_per_step(auto, workspace)) for _ in range(given.repeats)]
    started = time.strftime("%Y-%m-%d")
    print(f"{started}, tiny-phi, batch 8, 1 thread, {given.steps} steps, median of {given.repeats} pairs")
    print(f"fixed lr          {statistics.median(a for a, _ in pairs) * 1e3:8.2f} ms per step")
    print(f"AutoLR ({given.probe:<5})    {statistics.median(b for _, b in pairs) * 1e3:8.2f} ms per step")
    print(f"ratio             {statistics.median(b / a for a, b in pairs):8.3f}")


if __name__ == "__main__":
    main()
