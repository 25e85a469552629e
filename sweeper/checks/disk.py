"""Estimate the disk space of checkpoints and saved states, and compare it with the free space."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path

from search_spaces.common.durable import free_bytes
from search_spaces.common.messages import counted, format_size
from sweeper.settings.keep import parse_keep
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.store.folder import SweepError
from trainables.optimizers import OPTIMIZER_INFO
from trainables.spec import TrialSpec

FLOAT = 4
"""The number of bytes per weight, both in training and in a checkpoint."""
_UNADAPTED = ("embed", "wte", "wpe", "lm_head")
"""A weight matrix gets no LoRA adapter if its name contains one of these strings."""


@dataclass(frozen=True, slots=True)
class Disk:
    """The disk space that a sweep or a run needs.

    Attributes:
        checkpoint: the size of one checkpoint in bytes.
        state: the size of one trial's saved state in bytes.
        models: the number of checkpoints, with those of the frontier.
        frontier: the estimated number of these checkpoints that are not the last of a trial; 0 if the option
            ``--keep-checkpoints`` limits the number.
        running: the number of trials that have a saved state at the same time.
    """

    checkpoint: int
    state: int
    models: int
    running: int
    frontier: int = 0

    @property
    def bytes(self) -> int:
        """The size of all checkpoints and all saved states in bytes."""
        return self.models * self.checkpoint + self.running * self.state

    @property
    def minimum(self) -> int:
        """The size in bytes of one checkpoint and all saved states. A sweep does not start with less free space."""
        return self.checkpoint + self.running * self.state

    def format(self, out: Path, *, free: int) -> str:
        """Return a line such as ``disk: about 1.2 GB needed in OUT (2 checkpoints of 410 MB); 86 GB are free``."""
        parts = [f"{counted(self.models, 'checkpoint')} of {format_size(self.checkpoint)}"]
        if self.frontier:
            parts[0] += f", of which about {self.frontier} on the frontier"
        if self.running:
            parts.append(f"{counted(self.running, 'saved state')} of {format_size(self.state)}")
        return (
            f"disk: about {format_size(self.bytes)} needed in {out} ({', '.join(parts)}); {format_size(free)} are free"
        )


def frontier_size(epochs: float) -> int:
    """Estimate the number of epochs on the frontier from the number of evaluated epochs.

    The estimate is ``1.5 sqrt(epochs)``. In random samples of 8 to 128 trials of docs/data/tabulated_authors.csv.xz and
    tabulated_tofu.csv.xz, the frontier had on average 0.9 to 1.6 times ``sqrt(epochs)`` epochs.
    """
    return min(round(1.5 * math.sqrt(epochs)), int(epochs))


def estimate_sweep_disk(settings: SweepSettings, target: Path, *, trials: int, running: int) -> Disk:
    """Estimate the size of the checkpoints of ``trials`` further trials, and of saved states.

    ``target`` is the folder of the target model.

    Raises:
        KeepError: ``--keep-checkpoints`` is a size that is too small for the checkpoints.
    """
    disk = estimate_disk(settings.base, target, models=trials, running=running)
    if keep := parse_keep(settings.keep_checkpoints):
        return replace(disk, models=keep.count(disk.checkpoint))
    if not settings.every_epoch:
        return disk
    frontier = frontier_size(trials * settings.base.epochs / settings.base.eval_every)
    return replace(disk, models=trials + frontier, frontier=frontier)


def estimate_disk(spec: TrialSpec, target: Path, *, models: int, running: int) -> Disk:
    """Estimate the size of checkpoints and saved states. ``target`` is the folder of the target model."""
    shapes = _shapes(target)
    if spec.lora_rank is None:
        weight_count = sum(math.prod(shape) for shape in shapes.values())
    else:
        # The adapter of a matrix has one factor with r columns and one factor with r rows.
        adaptable = [shape for name, shape in shapes.items() if not any(part in name for part in _UNADAPTED)]
        weight_count = sum(spec.lora_rank * sum(shape) for shape in adaptable if len(shape) == 2)
    checkpoint = FLOAT * weight_count
    state = checkpoint * (1 + OPTIMIZER_INFO[spec.optimizer].buffers + spec.parsed_method.weighting.buffers)
    return Disk(checkpoint=checkpoint, state=state, models=models, running=running)


def check_disk(disk: Disk, out: Path) -> str:
    """Return a line on the required and the free space. Raise SweepError if fewer than ``minimum`` bytes are free."""
    free = free_bytes(out)
    line = disk.format(out, free=free)
    if free < disk.minimum:
        raise SweepError(
            f"not enough disk space: the first checkpoint and the saved states need {format_size(disk.minimum)}, but "
            f"only {format_size(free)} are free in {out}; free some space, or choose another folder with --out"
        )
    if free < disk.bytes:
        remedy = "free some space, or use --keep-checkpoints (a full disk loses no finished trial)"
        line += f", which may not suffice: {remedy}"
    return line


def count_parameters(folder: Path) -> int:
    """Return the number of parameters in the safetensors files of a folder."""
    return sum(math.prod(shape) for shape in _shapes(folder).values())


def _shapes(folder: Path) -> dict[str, list[int]]:
    shapes: dict[str, list[int]] = {}
    for path in folder.glob("*.safetensors"):
        with path.open("rb") as file:
            header_size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(header_size))
        shapes |= {name: entry["shape"] for name, entry in header.items() if name != "__metadata__"}
    return shapes
