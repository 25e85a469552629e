"""Choose how many trials share a GPU (``--gpus-per-trial auto``), based on measured GPU memory.

Trials with equal models, data and batch sizes form a memory class. The trials of a class get whole GPUs until one of
them has finished or was stopped. Then the measured memory peak determines the GPU share of the following trials.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from search_spaces.common.values import as_float
from sweeper.export.spec_of_row import spec_of_row
from sweeper.store.event_log import Follower
from sweeper.store.events import Event, TrialCut, TrialEnded, TrialStarted
from sweeper.store.state import SweepState
from trainables.run.reports import Status
from trainables.spec import TrialSpec

MARGIN = 0.15
"""The relative reserve above a memory peak, because other batches may be longer and memory may be fragmented."""
CONTEXT_GB = 0.6
"""GB for CUDA's context and kernels, which torch's allocator does not count."""
MAX_PER_GPU = 16
"""The maximum number of trials on one GPU."""

MemoryClass = tuple[object, ...]
_MODEL_FIELDS = ("model", "model_path", "target_path")
_DATA_FIELDS = ("dataset", "data_dir", "limit", "forget_split", "template", "max_length")
_BATCH_FIELDS = ("batch_size", "micro_batch", "eval_batch_size")
_TRAINING_FIELDS = (
    "lora_rank",
    "optimizer",
    "update",
    "dtype",
    "gradient_checkpointing",
    "auto_lr",
    "retain_objective",
)
_FIELDS = (*_MODEL_FIELDS, *_DATA_FIELDS, *_BATCH_FIELDS, *_TRAINING_FIELDS, "metrics")


def memory_class(spec: TrialSpec) -> MemoryClass:
    """Return the settings that determine how much GPU memory a trial needs."""
    method = spec.parsed_method
    values = [getattr(spec, name) for name in _FIELDS]
    return (*values, str(method.weighting.needs), str(method.objective.reference))


def equal_share(trials: int) -> float:
    """Return the share of each of ``trials`` trials that share a GPU equally, rounded down to 1/10000 (Ray's unit)."""
    # If shares were rounded up, six trials would exceed one GPU: 6 * 0.1667 > 1.
    return math.floor(10_000 / trials) / 10_000


def smallest_share(peak_gb: float, gpu_gb: float, *, more_than_gb: float = 0.0) -> float:
    """Return the smallest GPU share with enough memory for a peak of ``peak_gb``; 1 (a whole GPU) if none has enough.

    The share must provide more memory than ``more_than_gb``, with which a trial ran out of memory. All three arguments
    are in GB (1e9 bytes).
    """
    required = peak_gb * (1.0 + MARGIN) + CONTEXT_GB
    for trials in range(MAX_PER_GPU, 1, -1):
        available = equal_share(trials) * gpu_gb
        if available >= required and available > more_than_gb * (1.0 + 1e-6):
            return equal_share(trials)
    return 1.0


def _trials_per_gpu(gpus: float) -> int:
    return int(1.0 / gpus + 1e-9)


@dataclass
class _MemoryUsage:
    """The measured GPU memory of the trials of a memory class."""

    peak_gb: float = 0.0
    more_than_gb: float = 0.0  # the largest memory with which a trial ran out of memory
    is_complete: bool = False  # whether a trial of the class finished or was stopped early
    example: str = ""
    printed: float | None = None  # the share in the last printed line


@dataclass(kw_only=True)
class GpuShares(Follower):
    """Reserves a GPU share for each running trial.

    Attributes:
        gpus: the number of GPUs of the cluster.
        gpu_gb: the memory of the smallest GPU in GB (1e9 bytes); None if unknown.
        max_concurrent: the maximum number of concurrent trials. The scheduler enforces this limit.
        say: the function that prints a line when a memory class gets a new share.
    """

    gpus: float = 1.0
    gpu_gb: float | None = None
    max_concurrent: int = 1
    say: Callable[[str], None] = lambda line: None
    _classes: dict[MemoryClass, _MemoryUsage] = field(default_factory=dict)
    _reserved: dict[str, float] = field(default_factory=dict)
    _paused: set[str] = field(default_factory=set)

    needs_disk = False

    def catch_up(self, state: SweepState) -> None:
        self.learn([trial.row() for trial in state.ended_trials])

    def apply(self, event: Event, state: SweepState) -> None:
        """Update which shares are in use. When a trial ends, update the memory peak of its memory class."""
        match event:
            case TrialStarted(trial_id):
                self._paused.discard(trial_id)
            case TrialCut(trial_id, waits=True):
                self._paused.add(trial_id)
            case TrialEnded(trial_id, outcome):
                self._reserved.pop(trial_id, None)
                trial, gpu_gb = state.trials[trial_id], outcome.execution.gpu_gb
                if gpu_gb is not None and not trial.reused_from:
                    self.gpu_gb = gpu_gb if self.gpu_gb is None else min(self.gpu_gb, gpu_gb)
                self.learn([trial.row()])
                self.print_new()

    def learn(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Update the memory classes with the memory peaks of ended trials, given as rows of trials.csv."""
        for row in rows:
            trial_peak = as_float(row.get("peak_gpu_gb"))
            if not math.isfinite(trial_peak):
                continue
            try:
                spec = spec_of_row(row)
                usage = self._classes.setdefault(memory_class(spec), _MemoryUsage())
            except (KeyError, TypeError, ValueError):
                continue  # the row needs a plug-in that is not loaded
            usage.peak_gb = max(usage.peak_gb, trial_peak)
            usage.example = f"{row.get('trial_id')} ({spec.method})"
            if row.get("retried_with") or "out of memory" in str(row.get("error") or ""):
                available_gb = as_float(row.get("gpu_share")) * as_float(row.get("gpu_gb"))
                usage.more_than_gb = max(usage.more_than_gb, available_gb)
            # A trial with another status may have ended before an evaluation and before its longest batch.
            usage.is_complete |= row.get("status") in (Status.FINISHED, Status.STOPPED)

    def print_new(self) -> None:
        """Print a line for each memory class whose share has changed since its last line."""
        for usage in self._classes.values():
            if not usage.is_complete or self.gpu_gb is None:
                continue
            gpus = self._share(usage)
            if gpus == usage.printed:
                continue
            exceeded = ""
            if usage.more_than_gb:
                exceeded = f"; {usage.more_than_gb:.2f} GB of GPU memory per trial were too little"
            share_text = "a whole GPU" if gpus >= 1.0 else f"1/{_trials_per_gpu(gpus)} of a GPU"
            self.say(
                f"trials with the model, data and batch sizes of trial {usage.example} took up to {usage.peak_gb:.2f} "
                f"GB of the GPU's {self.gpu_gb:.1f} GB{exceeded}; from now on, each of these trials gets {share_text}"
            )
            usage.printed = gpus

    def share_of(self, spec: TrialSpec) -> float:
        """Return the GPU share for a new trial with the settings ``spec``."""
        return self._share(self._classes.get(memory_class(spec)))

    def _share(self, usage: _MemoryUsage | None) -> float:
        if usage is None or not usage.is_complete or self.gpu_gb is None:
            return 1.0
        return smallest_share(usage.peak_gb, self.gpu_gb, more_than_gb=usage.more_than_gb)

    @property
    def largest(self) -> float:
        """The largest share of all measured memory classes, or 1 (a whole GPU) if no class is measured."""
        return max((self._share(usage) for usage in self._classes.values() if usage.is_complete), default=1.0)

    @property
    def concurrent(self) -> int:
        """The number of concurrent trials if each trial has the largest share."""
        slots = int(self.gpus) * _trials_per_gpu(self.largest)
        return max(1, min(self.max_concurrent, slots))

    def has_room(self, gpus: float = equal_share(MAX_PER_GPU)) -> bool:
        """Return whether a trial with this GPU share can start. A trial can always start if no trial is running."""
        used_shares = [share for trial_id, share in self._reserved.items() if trial_id not in self._paused]
        return not used_shares or sum(used_shares) + gpus <= self.gpus * (1.0 + 1e-9)

    def reserve(self, trial_id: str, gpus: float) -> None:
        self._reserved[trial_id] = gpus
