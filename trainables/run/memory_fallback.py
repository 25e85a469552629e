"""If GPU memory runs out, rerun the trial with settings that need less memory."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from trainables.modality import dataset_modality
from trainables.run.reports import EpochReport
from trainables.spec import TrialSpec

if TYPE_CHECKING:
    from trainables.run.run import UnlearningRun

logger = logging.getLogger(__name__)


def with_less_memory(spec: TrialSpec) -> TrialSpec | None:
    """Return the spec with settings that need less GPU memory; None if the settings already need the least memory.

    The number of examples per forward pass is halved, both for training and for evaluation. If training already uses
    one example per pass, gradient checkpointing is enabled instead. Settings that do not apply to the model are not
    changed.
    """
    unused_fields = dataset_modality(spec.dataset).unused_fields
    micro_batch = min(spec.micro_batch or spec.batch_size, spec.batch_size)
    reduced_spec = replace(spec, eval_batch_size=math.ceil(spec.eval_batch_size / 2))
    if micro_batch > 1 and "micro_batch" not in unused_fields:
        return replace(reduced_spec, micro_batch=math.ceil(micro_batch / 2))
    if not spec.gradient_checkpointing and "gradient_checkpointing" not in unused_fields:
        return replace(reduced_spec, gradient_checkpointing=True)
    return None


def memory_settings(spec: TrialSpec) -> str:
    """Return the memory settings of a spec as a text, for messages and tables."""
    settings = []
    if spec.micro_batch is not None:
        settings.append(f"micro_batch {spec.micro_batch}")
    if spec.gradient_checkpointing:
        settings.append("gradient_checkpointing")
    settings.append(f"eval_batch_size {spec.eval_batch_size}")
    return ", ".join(settings)


class FallbackRun:
    """Runs a trial. If GPU memory runs out, the run starts again with settings that need less memory.

    Args:
        start: function that creates a run of the trial from a spec with the memory settings.

    Attributes:
        run: the current run; None before the first report.
    """

    def __init__(self, spec: TrialSpec, start: Callable[[TrialSpec], UnlearningRun]) -> None:
        self._spec, self._start = spec, start
        self._memory_spec = spec
        self._reported_epoch = 0.0
        self.run: UnlearningRun | None = None

    @property
    def retried_with(self) -> str | None:
        """The memory settings of the current run, as a text; None if they are the settings in the trial's spec."""
        return None if self._memory_spec is self._spec else memory_settings(self._memory_spec)

    def reset(self) -> None:
        """Discard the run. The next report starts a new run."""
        self.run = None
        self._reported_epoch = 0.0

    def next_report(self) -> EpochReport:
        """Return the next report. After a restart, epochs that were already reported are not reported again.

        Raises:
            OutOfMemoryError: GPU memory runs out even with the settings that need the least memory.
        """
        import torch

        while True:
            try:
                if self.run is None:
                    self.run = self._start(self._memory_spec)
                report = next(self.run)
            except torch.cuda.OutOfMemoryError:
                reduced_spec = with_less_memory(self._memory_spec)
                if reduced_spec is None:
                    raise
                logger.warning("a trial ran out of GPU memory and is retried with %s", memory_settings(reduced_spec))
                self._memory_spec = reduced_spec
                self.run = None
                continue
            if report.epoch > self._reported_epoch or report.status is not None:
                self._reported_epoch = report.epoch
                return report
