"""Where models are trained and scored unless told otherwise."""

from __future__ import annotations


def default_device() -> str:
    """``cuda`` where there is one, else ``cpu``."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
