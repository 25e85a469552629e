"""Limit a trial to its share of a GPU's memory, and measure how much memory is used."""

from __future__ import annotations

import gc


def limit_to_share(device: str, gpus: float) -> None:
    """Limit this process to the share ``gpus`` of a GPU's memory. There is no limit if ``gpus`` is 1 or more."""
    import torch

    if device == "cuda" and gpus < 1:
        torch.cuda.set_per_process_memory_fraction(gpus)


def empty_gpu_cache() -> None:
    """Free the memory of this process's earlier runs, and reset the peak memory."""
    import torch

    gc.collect()  # after an out-of-memory error, a reference cycle with the traceback keeps the run alive
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()


def gpu_size(device: str) -> float | None:
    """Return the total memory of the GPU in GB (1e9 bytes); None without a GPU."""
    import torch

    return torch.cuda.mem_get_info()[1] / 1e9 if device == "cuda" else None


def peak_gpu_memory(device: str) -> float | None:
    """Return the peak memory use in GB (1e9 bytes) since the last :func:`empty_gpu_cache`; None without a GPU."""
    import torch

    return torch.cuda.max_memory_reserved() / 1e9 if device == "cuda" else None
