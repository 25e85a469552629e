"""How well does a training step use a GPU? Measures time, share of the peak, and memory with a model of Phi-1.5's size.

    python benchmarks/gpu_step.py
    python benchmarks/gpu_step.py --device cpu --width 256 --layers 4 --batch-size 4 --length 64

Trains a Phi that starts from random weights. The methods are gdiff (one backward pass) and ngdiff (two gradients), and
each trains all weights or LoRA of rank 8. Times the steps of the second of three epochs. The number of operations is
estimated as 6 per weight and token position: 2 in the forward pass and 4 in the backward pass. With LoRA, the estimate
is 4, because frozen weights have no gradient. Attention is not counted. The peak is measured with a product of two
large matrices with the same dtype.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from random_phi import random_phi, word_data

from trainables.device import empty_gpu_cache
from trainables.run.run import UnlearningRun
from trainables.run.workspace import Workspace
from trainables.spec import TrialSpec

STEPS = 8
"""The number of steps in an epoch."""
CASES = tuple((method, rank) for rank in (None, 8) for method in ("gdiff", "ngdiff"))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="bf16", choices=("bf16", "fp32"), help="CPUs always use fp32.")
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--length", type=int, default=256)
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("torch finds no GPU; to try the script, use --device cpu with a small --width and --layers")
    dtype = args.dtype if args.device == "cuda" else "fp32"
    peak = matrix_peak(args.device, torch.bfloat16 if dtype == "bf16" else torch.float32)
    print(f"peak: {peak / 1e12:.2f} TFLOP/s in {dtype}")
    with TemporaryDirectory() as folder:
        data = word_data(STEPS * args.batch_size, args.length)
        vocabulary = 51200 if args.width >= 2048 else None  # Phi-1.5's
        target = random_phi(
            Path(folder), data, max_length=args.length, width=args.width, layers=args.layers, vocabulary=vocabulary
        )
        workspace = Workspace(target, device=args.device)
        for method, rank in CASES:
            spec = TrialSpec(
                method=method,
                lora_rank=rank,
                dtype=dtype,
                batch_size=args.batch_size,
                max_length=args.length,
                epochs=3,
                eval_every=3,
                metrics=(),
            )
            seconds, weights, peak_bytes = measure(workspace, spec)
            positions = 2 * args.batch_size * args.length
            operations = (6 if rank is None else 4) * weights * positions
            memory = "" if peak_bytes is None else f", {peak_bytes / 2**30:.1f} GiB"
            trained = "all weights" if rank is None else f"LoRA {rank}"
            print(
                f"{method:8} {trained:11} {weights / 1e6:6.0f} M weights: {1e3 * seconds:7.1f} ms per step, "
                f"{positions / seconds:8.0f} tokens/s, {operations / seconds / peak:4.0%} of the peak{memory}",
                flush=True,
            )


def measure(workspace: Workspace, spec: TrialSpec) -> tuple[float, int, int | None]:
    """Return the seconds per step in the second epoch, the number of weights, and the peak GPU memory in bytes."""
    on_gpu = torch.device(workspace.device).type == "cuda"
    run = UnlearningRun(spec, workspace)
    if on_gpu:
        empty_gpu_cache()
    next(run)
    _wait(on_gpu)
    started = time.perf_counter()
    next(run)
    _wait(on_gpu)
    seconds = (time.perf_counter() - started) / STEPS
    weights = sum(parameter.numel() for parameter in run.model.parameters())
    return seconds, weights, torch.cuda.max_memory_allocated() if on_gpu else None


def _wait(on_gpu: bool) -> None:
    if on_gpu:
        torch.cuda.synchronize()


def matrix_peak(device: str, dtype: torch.dtype) -> float:
    """Return the operations per second of a product of two square matrices; the best of ten measurements."""
    size = 8192 if device == "cuda" else 1024
    a, b = torch.randn(2, size, size, device=device, dtype=dtype)
    best = float("inf")
    for _ in range(10):
        _wait(device == "cuda")
        started = time.perf_counter()
        torch.mm(a, b)
        _wait(device == "cuda")
        best = min(best, time.perf_counter() - started)
    return 2 * size**3 / best


if __name__ == "__main__":
    main()
