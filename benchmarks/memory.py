"""How much memory does a trial need? Compares measurements on a CPU with the formula in docs/howto.md.

    python benchmarks/memory.py [--width 512] [--layers 12]

Each trial trains a Phi with random weights for two steps of AdamW on eight forget and eight retain questions, and
evaluates it. Trials use gdiff (one gradient) or ngdiff (two gradients), with all weights or with LoRA of rank 8. Each
trial runs in its own process with one thread. The script measures the peak growth of the resident memory after the
weights were loaded. The formula counts 4 bytes per trained parameter for each gradient and 8 bytes for the state of
AdamW. The remaining memory is for activations, logits, imports and temporaries. Needs Linux.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from random_phi import random_phi, word_data

from trainables.target.target import Target

GRADIENTS = {"gdiff": 1, "ngdiff": 2}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=12)
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as new_process,
    ):
        target = new_process.submit(
            random_phi, Path(folder), word_data(8, 4), max_length=64, width=args.width, layers=args.layers
        ).result()
        print(f"{'':8} {'trained':>10} {'gradients':>10} {'AdamW':>10} {'formula':>10} {'measured':>10}")
        for rank in (0, 8):
            for method, gradients in GRADIENTS.items():
                trained, growth = new_process.submit(measure, target, method, rank).result()
                state_bytes = [4 * trained * gradients, 8 * trained]
                columns = " ".join(f"{part / 1e6:7.1f} MB" for part in (*state_bytes, sum(state_bytes), growth))
                print(f"{method:8} {trained / 1e6:8.1f} M {columns}  {f'LoRA {rank}' if rank else 'all weights'}")


def measure(target: Target, method: str, rank: int) -> tuple[int, int]:
    """Return the number of trained parameters, and the peak growth of this process in bytes during a trial."""
    import torch

    from trainables.run.run import UnlearningRun
    from trainables.run.workspace import Workspace
    from trainables.spec import TrialSpec

    torch.set_num_threads(1)
    workspace = Workspace(target, device="cpu")
    spec = TrialSpec(method=method, lora_rank=rank or None, epochs=1, batch_size=4, max_length=64, eval_batch_size=4)
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here on
    run = UnlearningRun(spec, workspace)
    list(run)
    trained = sum(parameter.numel() for parameter in run.model.parameters() if parameter.requires_grad)
    return trained, status("VmHWM") - before


def status(name: str) -> int:
    """Return the number of bytes that the line ``name`` of this process's status file gives."""
    match = re.search(rf"^{name}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert match is not None, "this needs Linux"
    return 1024 * int(match[1])


if __name__ == "__main__":
    main()
