"""A trial's share of a GPU's memory: enforced, so that who needs more ends alone, and measured."""

from __future__ import annotations

import gc


def keep_to_share(device: str, gpus: float) -> None:
    """Let this process take no more than ``gpus`` of a GPU's memory; a whole one, or several, are not shared."""
    import torch

    if device == "cuda" and gpus < 1:
        torch.cuda.set_per_process_memory_fraction(gpus)


def empty_gpu_cache() -> None:
    """Give back what earlier runs of this process held, and count the peak from here on."""
    import torch

    gc.collect()  # a run that ran out of memory is in the cycles of its traceback
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()


def gpu_size(device: str) -> float | None:
    """GB (1e9 bytes) of memory the GPU has; None without one."""
    import torch

    return torch.cuda.mem_get_info()[1] / 1e9 if device == "cuda" else None


def peak_gpu_memory(device: str) -> float | None:
    """GB (1e9 bytes) of GPU memory held at the peak since :func:`empty_gpu_cache`; None without a GPU."""
    import torch

    return torch.cuda.max_memory_reserved() / 1e9 if device == "cuda" else None
