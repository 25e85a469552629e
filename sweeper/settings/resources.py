"""The resources that one trial takes, and the number of GPUs of this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

AUTO = "auto"
"""The value of ``--gpus-per-trial`` that sets GPU shares from the memory use of a first trial."""


@dataclass(frozen=True, slots=True)
class Resources:
    """The CPU threads and GPUs of one trial. Several trials run on one GPU if each takes a fraction of it."""

    cpus: float
    gpus: float


def gpus_here() -> int:
    """Return the number of GPUs on this machine, without importing torch."""
    return len(list(Path("/dev").glob("nvidia[0-9]*")))
