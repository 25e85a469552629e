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
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ray import tune
from ray.tune.result import DONE, SHOULD_CHECKPOINT

from search_spaces.common.durable import Throttle
from trainables import device
from trainables.run.memory_fallback import FallbackRun
from trainables.run.reports import EpochReport, Status
from trainables.saved_state import STATE_FILE, read_state
from trainables.spec import TrialSpec
from trainables.storage import Storage, StorageError
from trainables.target.shared import local_target
from trainables.target.target import Target
from trainables.worker.candidates import Costs, Goals, candidate_folder, dominates, epoch_costs
from trainables.worker.process import worker_workspace
from trainables.worker.trial_files import TrialFiles

if TYPE_CHECKING:
    from trainables.run.run import UnlearningRun

logger = logging.getLogger(__name__)


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
        goals: Goals = (),
        storage: Storage | None = None,
    ) -> None:
        """Prepare the worker. The target is loaded in the first :meth:`step`, not here.

        Args:
            targets: the targets of the sweep, by ``target_key``.
            out: the sweep's folder.
            gpus: the number of GPUs for a trial whose ``config`` has no ``gpus``.
            goals: the objectives of the sweep.
            storage: the storage to which the trial's files are uploaded; None if all workers share the folder ``out``.
        """
        import torch

        torch.set_num_threads(max(1, int(cpus)))
        self._targets, self._goals = targets, goals
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
        self._saved_costs: list[Costs] = []
        # Saving may take at most 2% of the time, because the state of a large model is slow to save.
        self._throttle = Throttle(share=0.02, pause=15.0)
        return True

    def step(self) -> dict[str, Any]:
        """Run the trial up to its next report. Return the ``report`` and, when the trial ends, its ``outcome``."""
        result: dict[str, Any] = {}
        try:
            report = self._trial.next_report()
            result["report"] = self._row(report)
            run = self._trial.run
            assert run is not None
            if report.status is None:
                result["report"] |= self._save_candidate(run, report)
            else:
                outcome = report.outcome() | {"checkpoint": None}
                if report.status is Status.FINISHED:
                    outcome["checkpoint"] = f"checkpoints/{self._id}"
                    self._files.write_model(run, f"checkpoints/{self._id}")
                self._files.write_items(run, self._id)
                result["outcome"] = outcome
        except Exception as error:
            # If the run has already returned its report, the report is kept: a full disk does not lose its values.
            result["outcome"] = {"status": str(Status.FAILED), "error": self._files.write_error(error, self._id)}
            self._trial.run = None
        is_done = "outcome" in result
        if is_done:
            now = time.time()
            result["outcome"] |= {**self._worker_columns(now), "ended_at": now}
        result[DONE] = is_done
        result[SHOULD_CHECKPOINT] = not is_done and self._throttle.is_due()
        return result

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

    def _save_candidate(self, run: UnlearningRun, report: EpochReport) -> dict[str, bool]:
        """Save the epoch's model unless the epoch is dominated. Return columns to add to the epoch's report."""
        costs = epoch_costs({**report.losses, **report.metrics}, self._goals)
        if not costs:
            return {}
        costs_to_beat = [*self._saved_costs, *self._files.front()]
        if any(dominates(other_costs, costs) for other_costs in costs_to_beat):
            return {}
        self._saved_costs.append(costs)
        try:
            self._files.write_model(run, candidate_folder(self._id, report.epoch))
        except StorageError as error:  # an OSError, such as a full disk, fails the trial
            logger.warning("the model of trial %s after epoch %g could not be saved: %s", self._id, report.epoch, error)
            return {}
        return {"stored": True} if self._files.storage else {}

    def _row(self, report: EpochReport) -> dict[str, object]:
        row = {**report.row(), **asdict(report.timers), **self._worker_columns(time.time())}
        if not report.evaluated:
            row["evaluated"] = False
        if report.auto_lr:
            row["auto_lr"] = list(report.auto_lr)
        return row

    def _worker_columns(self, now: float) -> dict[str, object]:
        columns: dict[str, object] = {
            "wall_seconds": now - self._started_at,
            "started_at": self._started_at,
            "first_step_at": self._first_step_at,
            "worker": f"{socket.gethostname()}:{os.getpid()}",
        }
        if self._trial.retried_with:
            columns["retried_with"] = self._trial.retried_with
        if self._gpus > 0:
            columns |= {"gpu_share": self._gpus, "gpu_gb": self._gpu_gb}
        peak_gb = device.peak_gpu_memory(self._device)
        if peak_gb is not None:
            columns["peak_gpu_gb"] = peak_gb
        return columns
