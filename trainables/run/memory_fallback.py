"""If GPU memory runs out, rerun the trial with settings that need less memory."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trainables.run.reports import Report
from trainables.spec import TrialSpec

if TYPE_CHECKING:
    from trainables.run.run import UnlearningRun

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MemoryFallback:
    """The memory settings of a run.

    Attributes:
        micro_batch: the maximum number of examples per forward pass of training; None for the whole batch.
        gradient_checkpointing: whether activations are recomputed in the backward pass.
        eval_batch_size: the maximum number of examples per forward pass of evaluation.
    """

    micro_batch: int | None
    gradient_checkpointing: bool
    eval_batch_size: int

    @classmethod
    def of(cls, spec: TrialSpec) -> MemoryFallback:
        """Return the memory settings in a trial's spec."""
        return cls(spec.micro_batch, spec.gradient_checkpointing, spec.eval_batch_size)

    def next(self, batch_size: int, *, unused: Container[str] = ()) -> MemoryFallback | None:
        """Return settings that need less memory; None if no such settings remain.

        The number of examples per forward pass is halved, both for training and for evaluation. If the number for
        training is 1, gradient checkpointing is enabled instead. ``unused`` has the settings that the model does not
        support.
        """
        size = min(self.micro_batch or batch_size, batch_size)
        smaller = replace(self, eval_batch_size=-(-self.eval_batch_size // 2))
        if size > 1 and "micro_batch" not in unused:
            return replace(smaller, micro_batch=-(-size // 2))
        if not self.gradient_checkpointing and "gradient_checkpointing" not in unused:
            return replace(smaller, gradient_checkpointing=True)
        return None

    def __str__(self) -> str:
        parts = [] if self.micro_batch is None else [f"micro_batch {self.micro_batch}"]
        parts += ["gradient_checkpointing"] if self.gradient_checkpointing else []
        return ", ".join([*parts, f"eval_batch_size {self.eval_batch_size}"])


class FallbackRun:
    """The run of a trial. If GPU memory runs out, the run starts again with settings that need less memory.

    Args:
        start: creates a run.
        unused: returns the names of the settings that the model does not support.

    Attributes:
        run: the current run; None before the first report.
    """

    def __init__(
        self, spec: TrialSpec, start: Callable[[MemoryFallback], UnlearningRun], unused: Callable[[], Container[str]]
    ) -> None:
        self._spec, self._start, self._unused = spec, start, unused
        self._memory, self._reported = MemoryFallback.of(spec), 0.0
        self.run: UnlearningRun | None = None

    @property
    def retried_with(self) -> MemoryFallback | None:
        """The current memory settings if they differ from the spec's settings, otherwise None."""
        return None if self._memory == MemoryFallback.of(self._spec) else self._memory

    def reset(self) -> None:
        """Discard the run. The next report starts a new run."""
        self.run, self._reported = None, 0.0

    def next_report(self) -> Report:
        """Return the next report. No epoch is reported twice.

        Raises:
            OutOfMemoryError: GPU memory runs out even with the settings that need the least memory.
        """
        import torch

        while True:
            try:
                if self.run is None:
                    self.run = self._start(self._memory)
                report = next(self.run)
            except torch.cuda.OutOfMemoryError:
                smaller = self._memory.next(self._spec.batch_size, unused=self._unused())
                if smaller is None:
                    raise
                logger.warning("a trial ran out of GPU memory: retrying with %s", smaller)
                self._memory, self.run = smaller, None
                continue
            if report.epoch > self._reported or report.status is not None:
                self._reported = report.epoch
                return report
