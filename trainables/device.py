"""Choose the device, move batches to it, limit and measure its memory, and disable denormal numbers."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def default_device(gpus: float = 1.0) -> str:
    """Return ``cuda`` if ``gpus`` is above 0 and a GPU is available, otherwise ``cpu``."""
    import torch

    return "cuda" if gpus > 0 and torch.cuda.is_available() else "cpu"


def on_device(tensor: Tensor, device: torch.device | str) -> Tensor:
    """Copy a tensor from the host to a device. The host does not wait for the copy."""
    import torch

    if torch.device(device).type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


@contextmanager
def flush_denormals() -> Iterator[None]:
    """Flush denormal numbers (below 1e-38) to 0 in this thread while the block runs. Denormals are slow on a CPU."""
    import torch

    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def limit_gpu_memory(device: str, gpus: float) -> None:
    """Limit this process to the fraction ``gpus`` of a GPU's memory. If ``gpus`` is 1 or more, nothing is limited."""
    import torch

    if device == "cuda" and gpus < 1:
        torch.cuda.set_per_process_memory_fraction(gpus)


def empty_gpu_cache() -> None:
    """Free the GPU memory of this process's previous runs, and reset the peak of :func:`peak_gpu_memory`."""
    import torch

    gc.collect()  # after an out-of-memory error, a reference cycle with the traceback keeps the run alive
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()


def total_gpu_memory(device: str) -> float | None:
    """Return the total memory of the GPU in GB (1e9 bytes); None without a GPU."""
    import torch

    return torch.cuda.mem_get_info()[1] / 1e9 if device == "cuda" else None


def peak_gpu_memory(device: str) -> float | None:
    """Return the peak memory use in GB (1e9 bytes) since the last :func:`empty_gpu_cache`; None without a GPU."""
    import torch

    return torch.cuda.max_memory_reserved() / 1e9 if device == "cuda" else None
