"""Measure whether bfloat16 is faster than float32 on this CPU. Without an instruction for it, it is far slower."""

from __future__ import annotations

import time

WORTH = 1.4
"""bfloat16 is worth using if it is at least this many times as fast as float32."""
_SHAPE = (512, 1024, 1024)  # rows, inputs, outputs: 5 ms in float32


def bf16_gain() -> float:
    """Return how many times as fast one thread multiplies matrices in bfloat16 as in float32, each at its best of 8.

    Without an instruction for bfloat16 a product is very slow, so if one takes 0.2 s, no more are measured.
    """
    import torch

    from trainables.models.kernels import onednn_is_faster, onednn_product

    def multiply(x: torch.Tensor, weight: torch.Tensor) -> None:
        if x.dtype is torch.float32 and onednn_is_faster():
            onednn_product(x, weight, None)
        else:
            torch.nn.functional.linear(x, weight)

    def best(dtype: torch.dtype, tries: int) -> float:
        rows, inputs, outputs = _SHAPE
        x, weight = torch.ones(rows, inputs, dtype=dtype), torch.ones(outputs, inputs, dtype=dtype)
        found = []
        for _ in range(tries):
            started = time.perf_counter()
            multiply(x, weight)
            found.append(time.perf_counter() - started)
            if found[-1] > 0.2:
                break
        return min(found)

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return best(torch.float32, 8) / best(torch.bfloat16, 8)
    finally:
        torch.set_num_threads(threads)


def bf16_problem() -> str | None:
    """Return a message if a run on this CPU should not use bfloat16; otherwise None."""
    gain = bf16_gain()
    if gain >= WORTH:
        return None
    return (
        f"--dtype bf16: on this CPU a matrix product in bfloat16 is {gain:.2g} times as fast as in float32 (worth it "
        f"from {WORTH:g}; CPUs with avx512_bf16 or amx are); leave out --dtype, or run on a GPU"
    )
