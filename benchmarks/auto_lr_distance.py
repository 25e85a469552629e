"""Which rate does AutoLR's rule ``safe`` choose, from how many probe batches, and does it always find one?

    python benchmarks/auto_lr_distance.py [--model tiny-mistral] [--seed 54 55 56] [--batches 1 2 4]

Runs the first update of gdiff and ngdiff (batch 4) from starts of 1e-5 and 1e-2. Prints a line per run with the chosen
rate and the number of forward passes for each number of batches. A rate equal to the start means that none was found.
The last lines count the rates that were found, and give their range.
"""

from __future__ import annotations

import argparse
import itertools
from collections import defaultdict
from dataclasses import replace

import torch

from trainables.run.run import UnlearningRun
from trainables.run.workspace import Workspace
from trainables.spec import TrialSpec
from trainables.target.prepare import prepare_target

STARTS = (1e-5, 1e-2)
METHODS = (("gdiff", (("c", 0.5),)), ("ngdiff", ()))


def first_update(spec: TrialSpec, workspace: Workspace) -> tuple[float, int]:
    """Return the rate chosen at the first step, and the number of forward passes."""
    run = UnlearningRun(replace(spec, target_key=workspace.target.key), workspace)
    [update] = next(run).auto_lr
    return float(str(update["eta_new"])), (int(str(update["probes"])) + 1) * spec.auto_lr_probe_batches


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="tiny-mistral")
    parser.add_argument("--seed", nargs="+", type=int, default=[54, 55, 56])
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 2, 4])
    given = parser.parse_args()
    torch.set_num_threads(1)
    base = TrialSpec(model=given.model, batch_size=4, epochs=15, max_steps=1, auto_lr="on", auto_lr_log_forget=False)
    base = replace(base, metrics=("retain_loss",))
    workspace = Workspace(prepare_target(base), device="cpu")
    chosen: defaultdict[int, list[float | None]] = defaultdict(list)
    for (method, options), seed, start in itertools.product(METHODS, given.seed, STARTS):
        cells = []
        for batches in given.batches:
            spec = replace(base, method=method, options=options, seed=seed, lr=start, auto_lr_probe_batches=batches)
            rate, passes = first_update(spec, workspace)
            chosen[batches].append(None if rate == start else rate)
            cells.append(f"{batches}: {rate:.2e} in {passes}")
        print(f"{given.model} {method} seed {seed} from {start:g}   {'   '.join(cells)}", flush=True)
    for batches, rates in chosen.items():
        found = [rate for rate in rates if rate is not None]
        between = f", {min(found):.2e} to {max(found):.2e}" if found else ""
        print(f"{batches} batches: found in {len(found)} of {len(rates)}{between}")


if __name__ == "__main__":
    main()
