"""The resources that one trial takes, and the number of GPUs of this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

AUTO = "auto"
"""The value of ``--gpus-per-trial`` with which a first trial's memory use determines later trials' GPU shares."""


@dataclass(frozen=True, slots=True)
class Resources:
    """The number of CPU threads and of GPUs of one trial. If ``gpus`` is a fraction, several trials share a GPU."""

    cpus: float
    gpus: float


def gpus_here() -> int:
    """Return the number of GPUs on this machine, without importing torch."""
    return len(list(Path("/dev").glob("nvidia[0-9]*")))
