"""The resources of one trial, and the number of GPUs of this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

AUTO = "auto"
"""The value of ``--gpus-per-trial`` with which trials share GPUs according to their measured memory."""


@dataclass(frozen=True, slots=True)
class Resources:
    """The CPU threads and GPUs of one trial. If ``gpus`` is a fraction, several trials share a GPU."""

    cpus: float
    gpus: float


def local_gpu_count() -> int:
    """Return the number of GPUs on this machine, without importing torch."""
    return len(list(Path("/dev").glob("nvidia[0-9]*")))
