"""Choose the device, move batches to it, and set its treatment of denormal numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def default_device() -> str:
    """Return ``cuda`` if available, otherwise ``cpu``."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def on_device(tensor: Tensor, device: torch.device | str) -> Tensor:
    """Move a host tensor to ``device``; to a GPU through pinned memory, so that the host does not wait."""
    import torch

    if torch.device(device).type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


@contextmanager
def smallest_as_zero() -> Iterator[None]:
    """Flush numbers below 1e-38 to 0 in this thread.

    Under ascent the probabilities of forgotten tokens fall below that, where a CPU is slower.
    """
    import torch

    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
