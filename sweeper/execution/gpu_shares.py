"""``--gpus-per-trial auto``: how many trials share a GPU, by the memory that the first one of a class took."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from sweeper.search.archive import number
from trainables.run.reports import Status
from trainables.spec import TrialSpec

MARGIN = 0.15
"""Of a trial's peak: other batches of the class are longer, and an allocator's blocks do not fit together exactly."""
CONTEXT_GB = 0.6
"""What a process takes of a GPU beside the allocator's memory, for CUDA's context and its kernels: an allowance."""
MOST = 16
"""At most so many trials share a GPU."""

MemoryClass = tuple[object, ...]
"""What decides how much memory a trial takes."""
_DECIDE = (
    *("model", "model_path", "target_path", "dataset", "data_dir", "limit", "forget_split", "template", "max_length"),
    *("batch_size", "micro_batch", "eval_batch_size", "lora_rank", "optimizer", "dtype", "gradient_checkpointing"),
    *("auto_lr", "retain_objective", "metrics"),
)


def memory_class(spec: TrialSpec) -> MemoryClass:
    """Trials of the same class take about the same memory.

    Of the method it is how many gradients a step holds, and what it needs of the frozen target.
    """
    method = spec.parsed_method
    return (*(getattr(spec, name) for name in _DECIDE), str(method.weighting.needs), str(method.objective.reference))


def part(trials: int) -> float:
    """The share of each of so many trials on a GPU. Ray counts in ten thousandths, and six times 0.1667 is above 1."""
    return math.floor(10_000 / trials) / 10_000


def share(peak_gb: float, gpu_gb: float, *, more_than_gb: float = 0.0, margin: float = MARGIN) -> float:
    """The share of a GPU of ``gpu_gb`` for trials whose allocator holds ``peak_gb``: 1, or :func:`part` of the most
    that fit beside each other, so that they fill it evenly.

    Each gets its peak with the ``margin``, and :data:`CONTEXT_GB`; and more than ``more_than_gb``, which was too little
    for one. Where even a whole GPU is less than that, it is a whole one.
    """
    need = peak_gb * (1.0 + margin) + CONTEXT_GB
    for trials in range(MOST, 1, -1):
        held = part(trials) * gpu_gb
        if held >= need and held > more_than_gb * (1.0 + 1e-6):
            return part(trials)
    return 1.0


def in_words(gpus: float) -> str:
    """``1/6 of a GPU``, ``a whole GPU``."""
    return "a whole GPU" if gpus >= 1.0 else f"1/{int(1.0 / gpus + 1e-9)} of a GPU"


@dataclass
class _Known:
    """Of a class: the highest peak, the largest share that was too little, and whether a trial went to its end."""

    peak_gb: float = 0.0
    more_than_gb: float = 0.0
    measured: bool = False
    example: str = ""
    said: float | None = None


@dataclass(kw_only=True)
class GpuShares:
    """Who takes which share, and whether there is room for one more; of one sweep, on the driver.

    Attributes:
        gpus: how many there are in all, once the cluster is reached.
        gpu_gb: memory of the smallest, 1e9 bytes; None until a node or a trial has told.
        most: so many trials run at once at most, whatever their shares.
        say: gets a line for the user when a class has been measured.
    """

    gpus: float = 1.0
    gpu_gb: float | None = None
    most: int = 1
    say: Callable[[str], None] = lambda line: None
    _classes: dict[MemoryClass, _Known] = field(default_factory=dict)
    _held: dict[str, float] = field(default_factory=dict)
    _waiting: dict[str, float] = field(default_factory=dict)

    def restore(
        self, rows: Iterable[Mapping[str, object]], spec_of: Callable[[Mapping[str, object]], TrialSpec]
    ) -> None:
        """Begin with what rows of trials.csv say, of this sweep or of earlier ones: their peaks are known then."""
        for row in rows:
            if math.isfinite(number(row.get("peak_gpu_gb"))):
                try:
                    spec = spec_of(row)
                    self._learn(memory_class(spec), row, f"{row.get('trial_id')} ({spec.method})")
                except (KeyError, TypeError, ValueError):
                    continue  # of a plug-in that is not here, or of another version: measured anew

    def begin(self) -> None:
        """Say which share each class takes that is known already."""
        for kind, known in self._classes.items():
            self._tell(kind, known.example)

    def share_of(self, spec: TrialSpec) -> float:
        """Of the next trial like this."""
        return self._share(self._classes.get(memory_class(spec)))

    @property
    def widest(self) -> float:
        """The largest share of a class that was measured; a whole GPU before one was."""
        return max((self._share(known) for known in self._classes.values() if known.measured), default=1.0)

    @property
    def at_once(self) -> int:
        """How many trials of that share run at once."""
        return max(1, min(self.most, int(self.gpus) * int(1.0 / self.widest + 1e-9)))

    def _share(self, known: _Known | None) -> float:
        if known is None or not known.measured or self.gpu_gb is None:
            return 1.0
        return share(known.peak_gb, self.gpu_gb, more_than_gb=known.more_than_gb)

    def has_room(self, gpus: float = part(MOST)) -> bool:
        """Whether one more trial of this share can begin now; always where none runs, whose turn would never come."""
        return not self._held or (
            len(self._held) < self.most and sum(self._held.values()) + gpus <= self.gpus * (1.0 + 1e-9)
        )

    def take(self, trial_id: str, gpus: float) -> None:
        """The trial is to begin, with this share."""
        self._held[trial_id] = gpus

    def paused(self, trial_id: str) -> None:
        """It waits, without a GPU."""
        if (gpus := self._held.pop(trial_id, None)) is not None:
            self._waiting[trial_id] = gpus

    def started(self, trial_id: str) -> None:
        """It runs, perhaps after it waited."""
        if (gpus := self._waiting.pop(trial_id, None)) is not None:
            self._held[trial_id] = gpus

    def ended(self, trial_id: str, spec: TrialSpec, row: Mapping[str, object]) -> None:
        """It is over, and its row may have its peak."""
        self._held.pop(trial_id, None)
        self._waiting.pop(trial_id, None)
        here = number(row.get("gpu_gb"))
        if not row.get("reused_from") and math.isfinite(here):
            self.gpu_gb = here if self.gpu_gb is None else min(self.gpu_gb, here)
        kind = memory_class(spec)
        self._learn(kind, row, example := f"{trial_id} ({spec.method})")
        self._tell(kind, example)

    def _learn(self, kind: MemoryClass, row: Mapping[str, object], example: str) -> None:
        known = self._classes.setdefault(kind, _Known())
        peak, held = number(row.get("peak_gpu_gb")), number(row.get("gpu_share")) * number(row.get("gpu_gb"))
        if not math.isfinite(peak):
            return
        known.peak_gb, known.example = max(known.peak_gb, peak), example
        ran_out = bool(row.get("retried_with")) or "out of memory" in str(row.get("error") or "")
        if ran_out and not math.isfinite(held):
            return  # of an earlier version: how little was too little is not known
        if ran_out:
            known.more_than_gb = max(known.more_than_gb, held)
        # One that ended at its first step has not been evaluated, and has not had its longest batch.
        known.measured |= row.get("status") in (Status.FINISHED, Status.STOPPED)

    def _tell(self, kind: MemoryClass, example: str) -> None:
        known = self._classes[kind]
        if not known.measured or self.gpu_gb is None or (now := self._share(known)) == known.said:
            return
        too_little = f", more than {known.more_than_gb:.2f} GB is needed" if known.more_than_gb else ""
        self.say(
            f"GPU memory of trials like {example}: {known.peak_gb:.2f} GB at the peak{too_little}, of "
            f"{self.gpu_gb:.1f} GB; each takes {in_words(now)} from now on"
        )
        known.said = now
