"""Where models are trained and scored unless told otherwise, and how their batches get there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def default_device() -> str:
    """``cuda`` where there is one, else ``cpu``."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def on_device(tensor: Tensor, device: torch.device | str) -> Tensor:
    """``tensor``, from the host, on ``device``; to a GPU through pinned memory, so that the host need not wait."""
    import torch

    if torch.device(device).type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


@contextmanager
def smallest_as_zero() -> Iterator[None]:
    """Inside, this thread takes numbers below 1e-38 for 0.

    Under ascent the probabilities of the forgotten tokens fall below, and there a CPU is slower.
    """
    import torch

    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
