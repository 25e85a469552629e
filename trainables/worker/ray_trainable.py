"""Run one trial as a Ray Tune trainable. No other module of ``trainables`` imports ray.

If a run raises an exception, the trial ends as ``failed`` with the reason, and the worker continues with other trials.
Ray restarts a trial only if its worker died. The driver imports this module, so torch is imported inside functions.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ray import tune
from ray.tune.result import DONE, SHOULD_CHECKPOINT

from search_spaces.common.durable import Throttle
from search_spaces.common.front import Criteria, Point
from trainables import device
from trainables.run.memory_fallback import FallbackRun
from trainables.run.reports import EpochReport, Execution, Outcome, Status
from trainables.saved_state import STATE_FILE, read_state
from trainables.spec import TrialSpec
from trainables.storage import Storage, StorageError
from trainables.target.shared import local_target
from trainables.target.target import Target
from trainables.worker.candidates import candidate_folder
from trainables.worker.process import worker_workspace
from trainables.worker.trial_files import TrialFiles

if TYPE_CHECKING:
    from trainables.run.run import UnlearningRun

logger = logging.getLogger(__name__)
REPORT, OUTCOME = "report", "outcome"
"""The keys of an :class:`EpochReport` and an :class:`Outcome` in the results of :meth:`UnlearningTrainable.step`."""


class UnlearningTrainable(tune.Trainable):
    """Runs one trial at a time in a Ray worker.

    ``config`` has the keys ``spec``, ``trial_id``, ``restore_from`` (the folder of a saved state, or None) and,
    optionally, ``gpus``.
    """

    def setup(  # noqa: PLR0913 - Ray calls it with the sweep's parameters
        self,
        config: dict[str, Any],
        *,
        targets: Mapping[str, Target],
        out: str,
        cpus: float,
        gpus: float,
        criteria: Criteria | None = None,
        storage: Storage | None = None,
    ) -> None:
        """Prepare the worker. The target is loaded in the first :meth:`step`, not here.

        Args:
            targets: the targets of the sweep, by ``target_key``.
            out: the sweep's folder.
            gpus: the number of GPUs for a trial whose ``config`` has no ``gpus``.
            criteria: decides which epochs' models are saved; None if only last epochs are saved.
            storage: the storage to which the trial's files are uploaded; None if all workers share the folder ``out``.
        """
        import torch

        torch.set_num_threads(max(1, int(cpus)))
        self._targets, self._criteria = targets, criteria
        self._files = TrialFiles(out, storage)
        self._gpus = float(config.get("gpus", gpus))  # Ray reuses a worker only for trials with the same gpus
        self._device = device.default_device(self._gpus)
        self._gpu_gb: float | None = None
        device.limit_gpu_memory(self._device, self._gpus)
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Prepare the worker for another trial. Return True, which tells Ray that the worker can be reused."""
        self._spec = TrialSpec.from_dict(new_config["spec"])
        self._target = self._targets[self._spec.target_key]
        self._id = str(new_config["trial_id"])
        self._files.discard_state()
        self._restore_from: str | None = new_config.get("restore_from")
        self._trial = FallbackRun(self._spec, self._start)
        self._started_at = time.time()
        self._first_step_at: float | None = None
        self._saved_points: list[Point] = []
        # Saving may take at most 2% of the time, because the state of a large model is slow to save.
        self._throttle = Throttle(share=0.02, pause=15.0)
        return True

    def step(self) -> dict[str, Any]:
        """Run the trial up to its next report. Return the report and, when the trial ends, its outcome."""
        report: EpochReport | None = None
        outcome: Outcome | None = None
        try:
            report = replace(self._trial.next_report(), execution=self._execution())
            run = self._trial.run
            assert run is not None
            if report.status is None:
                report = replace(report, is_stored=self._save_candidate(run, report))
            else:
                checkpoint = f"checkpoints/{self._id}" if report.status is Status.FINISHED else None
                if checkpoint is not None:
                    self._files.write_model(run, checkpoint)
                self._files.write_items(run, self._id)
                outcome = Outcome.after(
                    report, status=report.status, checkpoint=checkpoint, execution=self._execution()
                )
        except Exception as error:
            # If the run has already returned its report, the report is kept: a full disk does not lose its values.
            reason = self._files.write_error(error, self._id)
            outcome = Outcome(status=Status.FAILED, error=reason, execution=self._execution())
            self._trial.run = None
        is_done = outcome is not None
        should_checkpoint = not is_done and self._throttle.is_due()
        return {REPORT: report, OUTCOME: outcome, DONE: is_done, SHOULD_CHECKPOINT: should_checkpoint}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        import torch

        if self._trial.run is not None:
            torch.save(self._trial.run.state_dict(), Path(checkpoint_dir) / STATE_FILE)

    def save(self, checkpoint_dir: str | None = None) -> Any:
        with self._throttle.saving():
            return super().save(checkpoint_dir)

    def load_checkpoint(self, checkpoint: str) -> None:
        """Continue from a saved state at the next :meth:`step`."""
        self._restore_from = self._files.keep_state(checkpoint)
        self._trial.reset()

    def cleanup(self) -> None:
        self._files.close()

    def _start(self, memory_spec: TrialSpec) -> UnlearningRun:
        from trainables.run.run import UnlearningRun

        if self._device == "cuda":
            device.empty_gpu_cache()
        self._gpu_gb = device.total_gpu_memory(self._device)  # read now, because a GPU does not answer after an error
        self._target = local_target(self._target, self._files.storage)
        state_folder = self._files.fetch_state(self._restore_from) if self._restore_from else None
        run = UnlearningRun(self._spec, self._workspace(), memory_spec=memory_spec)
        state = None if state_folder is None else read_state(state_folder)
        if state is not None:
            run.load_state_dict(state)
        self._first_step_at = time.time()
        return run

    def _workspace(self) -> Any:
        return worker_workspace(self._target, self._device)

    def _save_candidate(self, run: UnlearningRun, report: EpochReport) -> bool:
        """Save the epoch's model if it would be kept. Return whether the model is in object storage.

        The epochs of a confirm trial, which has a ``stop_epoch``, cannot be on the frontier.
        """
        if self._criteria is None or self._spec.stop_epoch is not None:
            return False
        point = self._criteria.point(report.values)
        if not self._criteria.kept([*self._saved_points, *self._files.front(), point])[-1]:
            return False
        self._saved_points.append(point)
        try:
            self._files.write_model(run, candidate_folder(self._id, report.epoch))
        except StorageError as error:  # an OSError, such as a full disk, fails the trial
            logger.warning("the model of trial %s after epoch %g could not be saved: %s", self._id, report.epoch, error)
            return False
        return self._files.storage is not None

    def _execution(self) -> Execution:
        return Execution(
            worker=f"{socket.gethostname()}:{os.getpid()}",
            started_at=self._started_at,
            first_step_at=self._first_step_at,
            wall_seconds=time.time() - self._started_at,
            retried_with=self._trial.retried_with,
            gpu_share=self._gpus if self._gpus > 0 else None,
            gpu_gb=self._gpu_gb if self._gpus > 0 else None,
            peak_gpu_gb=device.peak_gpu_memory(self._device),
        )
