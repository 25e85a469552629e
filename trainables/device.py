"""Choose the device, move batches to the device, and disable denormal numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def default_device(gpus: float = 1.0) -> str:
    """Return the device for a process with this number of GPUs: ``cuda`` if a GPU is available, otherwise ``cpu``."""
    import torch

    return "cuda" if gpus > 0 and torch.cuda.is_available() else "cpu"


def on_device(tensor: Tensor, device: torch.device | str) -> Tensor:
    """Copy a tensor from the host to ``device``. Copies to a GPU use pinned memory, so that the host does not wait."""
    import torch

    if torch.device(device).type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


@contextmanager
def smallest_as_zero() -> Iterator[None]:
    """Flush denormal numbers (below 1e-38) to 0 in this thread while the block runs.

    Denormal numbers make CPUs slow. Under gradient ascent, the probabilities of forgotten tokens become denormal.
    """
    import torch

    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
