"""Where models are trained and scored unless told otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


def default_device() -> str:
    """``cuda`` where there is one, else ``cpu``."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


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
