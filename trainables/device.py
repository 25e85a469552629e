"""Where models are trained and scored unless told otherwise."""

from __future__ import annotations


def default_device() -> str:
    """``cuda`` where there is one, else ``cpu``."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def prepare_cpu(threads: float | None = None) -> None:
    """Let this process compute with so many threads (None: as many as it has), and take the smallest numbers for 0.

    Under ascent the probabilities of the forgotten tokens fall below 1e-38, where a CPU is many times slower: the last
    epochs of a run that diverges took half as long again.
    """
    import torch

    if threads is not None:
        torch.set_num_threads(max(1, int(threads)))
    torch.set_flush_denormal(True)
