"""The Ray Tune wrapper of one unlearning run: the only module of this package that knows ray.

An exception inside a run ends that trial as ``failed`` with its reason and leaves the worker alive; only a dead worker
is Ray's to restart.

The driver imports this module to name the class, so torch is imported where it is used.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import socket
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from functools import partial, partialmethod
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import ray
from ray import cloudpickle, tune
from ray.tune.result import SHOULD_CHECKPOINT

from search_spaces.durable import Throttle, remove_whole
from trainables.candidates import FRONT_FILE, Costs, Goals, candidate_folder, costs_of, dominates, read_front
from trainables.models.checkpoints import save_model
from trainables.run import gpu_memory
from trainables.run.failures import one_line, write_log
from trainables.run.reports import Report, Status
from trainables.run.thrift import Thrift
from trainables.scoring.item_log import write_item_log
from trainables.spec import TrialSpec
from trainables.storage import Storage, StorageError
from trainables.target.shared import target_at_hand
from trainables.target.target import Target
from trainables.target.training_state import load_state_file
from trainables.worker import device_of, worker_workspace

if TYPE_CHECKING:
    from trainables.run.run import UnlearningRun

STATE_FILE = "state.pt"
_RESTORED = "restored"
STORED = "stored"
"""In a report: the model after its epoch is in the storage."""
SAVE_EVERY_SECONDS = 15.0
_LARGEST_CLASS = 8_000_000
"""Bytes: Ray complains of classes above 10 MB, and refuses those above 95."""

logger = logging.getLogger(__name__)


class UnlearningTrainable(tune.Trainable):
    """One trial. ``config``: ``spec`` (a mapping), ``trial_id``, ``restore_from`` (a state's folder) or None.

    ``gpus``, where it is in the config, is what this one takes in place of what all do.
    """

    _run: UnlearningRun | None
    _restore_from: str | None

    def setup(
        self,
        config: dict[str, Any],
        *,
        target: Target,
        out: str,
        cpus: float,
        gpus: float,
        goals: Goals = (),
        targets: Mapping[str, Target] = MappingProxyType({}),
        storage: Storage | None = None,
    ) -> None:
        """Called once per worker; everything costly waits for the first :meth:`step`.

        A trial whose ``target_key`` is among ``targets`` starts from that one, any other from ``target``.
        With ``goals``, the objectives of the sweep, the model after each epoch that may be on its front is kept.
        With ``storage`` everything travels through that, and ``out`` is the driver's alone.
        """
        import torch

        torch.set_num_threads(max(1, int(cpus)))
        self._first, self._targets = target, targets
        self._elsewhere = storage
        self._scratch = None if storage is None else tempfile.TemporaryDirectory(prefix="sweeper-")
        self._out = Path(out if self._scratch is None else self._scratch.name)
        self._goals = goals
        self._gpus = float(config.get("gpus", gpus))  # of equal ones only a worker takes another trial
        self._device = device_of(self._gpus)
        self._gpu_gb: float | None = None
        gpu_memory.keep_to_share(self._device, self._gpus)
        self._accept(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take the next trial on this worker."""
        self._accept(new_config)
        return True

    def step(self) -> dict[str, Any]:
        """One report of the run; the last one carries the trial's ``outcome``."""
        result: dict[str, Any] = {}
        try:
            report = self._next_report()
            result["report"] = self._told(report)
            if report.status is None:
                result["report"] |= self._keep_candidate(report)
            else:
                checkpoint = self._save_model() if report.status is Status.FINISHED else None
                if items := self._run.items if self._run else {}:
                    write_item_log(self._out / (name := f"items/{self._id}.json"), items)
                    self._send(name)
                result["outcome"] = self._outcome(report.outcome() | {"checkpoint": checkpoint})
        except Exception as error:
            # A report made before the failure stays: a full disk must not cost the numbers of the last epoch.
            result["outcome"] = self._outcome({"status": str(Status.FAILED), "error": self._explain(error)})
            self._run = None
        result[tune.result.DONE] = "outcome" in result
        result[SHOULD_CHECKPOINT] = "outcome" not in result and self._throttle.is_due()
        return result

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """The whole state of the run, so that it goes on bit for bit elsewhere."""
        import torch

        with self._throttle.saving():
            if self._run is not None:
                torch.save(self._run.state_dict(), Path(checkpoint_dir) / STATE_FILE)

    def save(self, checkpoint_dir: str | None = None) -> Any:
        """Ray's own, which also sends the state to the storage: that is part of what saving costs."""
        with self._throttle.saving():
            return super().save(checkpoint_dir)

    def load_checkpoint(self, checkpoint: str) -> None:
        """Go on from a saved state at the next :meth:`step`."""
        self._restore_from = checkpoint
        if self._elsewhere is not None:  # Ray has fetched it, and takes it away when this returns
            self._restore_from = str(self._out / _RESTORED)
            shutil.copytree(checkpoint, self._restore_from, dirs_exist_ok=True)
        self._run, self._reported = None, 0.0

    def cleanup(self) -> None:
        """The worker ends."""
        if self._scratch is not None:
            self._scratch.cleanup()

    def _accept(self, config: Mapping[str, Any]) -> None:
        self._spec = TrialSpec.from_dict(config["spec"])
        self._target = self._targets.get(self._spec.target_key, self._first)
        self._id = str(config["trial_id"])
        if self._elsewhere is not None:
            remove_whole(self._out / _RESTORED)
        self._restore_from = config.get("restore_from")
        self._run = None
        self._thrift, self._reported = Thrift.of(self._spec), 0.0
        self._accepted = time.time()
        self._first_step: float | None = None
        self._passed: list[Costs] = []
        # A state of a large model takes long to write: it may cost 2% of the time.
        self._throttle = Throttle(share=0.02, pause=SAVE_EVERY_SECONDS)

    def _start(self) -> UnlearningRun:
        from trainables.run.run import UnlearningRun

        if self._device == "cuda":
            gpu_memory.empty_gpu_cache()
        self._gpu_gb = gpu_memory.gpu_size(self._device)  # not later: a GPU that failed answers no question
        self._target = target_at_hand(self._target, self._elsewhere)
        self._fetch_state()
        run = UnlearningRun(self._spec, worker_workspace(self._target, self._device), thrift=self._thrift)
        if self._restore_from is not None and (state := read_state(Path(self._restore_from))) is not None:
            run.load_state_dict(state)
        self._first_step = time.time()
        return run

    def _next_report(self) -> Report:
        """The run's next one; where a GPU's memory does not suffice, of the same run again, done in less.

        What was reported before is run through once more: its numbers are the same to rounding.
        """
        import torch

        while True:
            try:
                if self._run is None:
                    self._run = self._start()
                report = next(self._run)
            except torch.cuda.OutOfMemoryError:
                unused = worker_workspace(self._target, self._device).modality.unused_fields
                thriftier = self._thrift.more(self._spec.batch_size, unused=unused)
                if thriftier is None:
                    raise
                logger.warning("trial %s ran out of GPU memory: once more with %s", self._id, thriftier)
                self._thrift, self._run = thriftier, None
                continue
            if report.epoch > self._reported or report.status is not None:
                self._reported = report.epoch
                return report

    def _explain(self, error: Exception) -> str:
        """One line for the table; the whole traceback and what the worker printed go to a file the line names."""
        reason = one_line(f"{type(error).__name__}: {error}".strip().splitlines()[0])
        printed = (Path(f"/proc/self/fd/{number}").resolve() for number in (1, 2))  # Ray has put files there
        try:
            name = write_log(self._out, self._id, traceback.format_exc(), *printed)
            self._send(name)
        except (OSError, StorageError):
            return reason
        return f"{reason} (see {name})"

    def _save_model(self) -> str:
        assert self._run is not None
        folder = Path("checkpoints") / self._id
        save_model(self._run.model, worker_workspace(self._target, self._device).tokenizer, self._out / folder)
        self._send(str(folder))
        return str(folder)

    def _send(self, name: str) -> None:
        """Hand over what was written, if what is written here is seen nowhere else."""
        if self._elsewhere is not None:
            try:
                self._elsewhere.put(self._out / name, name)
            finally:
                remove_whole(self._out / name)

    def _fetch_state(self) -> None:
        """Have the state to go on from, which is named by its key in the storage, on this machine."""
        if self._elsewhere is not None and self._restore_from and not Path(self._restore_from).is_absolute():
            place = self._out / _RESTORED / STATE_FILE
            self._elsewhere.get(f"{self._restore_from}/{STATE_FILE}", place)
            self._restore_from = str(place.parent)

    def _front(self) -> list[Costs]:
        """The sweep's, as last heard of."""
        if self._elsewhere is not None:
            with contextlib.suppress(StorageError, OSError):
                self._elsewhere.get(FRONT_FILE, self._out / FRONT_FILE)
        return read_front(self._out)

    def _told(self, report: Report) -> dict[str, object]:
        """What the driver hears of an epoch; where the trial is stopped after it, that is all that is known of it."""
        seconds = {name: getattr(report, name) for name in ("train_seconds", "eval_seconds", "generation_seconds")}
        stale = {} if report.evaluated else {"evaluated": False}
        updates = {"auto_lr": list(report.auto_lr)} if report.auto_lr else {}
        return {**report.row(), **seconds, **self._clock(time.time()), **self._memory(), **stale, **updates}

    def _keep_candidate(self, report: Report) -> dict[str, bool]:
        """Save the model unless its epoch is known to be dominated; a disk that refuses does not end the trial.

        Returns what the driver is told where it cannot see the model itself: that it is in the storage.
        """
        assert self._run is not None
        if (costs := costs_of({**report.losses, **report.final}, self._goals)) is None or not costs:
            return {}
        if any(dominates(other, costs) for other in (*self._passed, *self._front())):
            return {}
        self._passed.append(costs)
        tokenizer = worker_workspace(self._target, self._device).tokenizer
        folder = candidate_folder(self._id, report.epoch)
        try:
            save_model(self._run.model, tokenizer, self._out / folder)
            self._send(folder)
        except (OSError, StorageError) as error:
            logger.warning("the model of trial %s after epoch %g is not kept: %s", self._id, report.epoch, error)
            return {}
        return {} if self._elsewhere is None else {STORED: True}

    def _outcome(self, values: Mapping[str, object]) -> dict[str, object]:
        now = time.time()
        return {**values, **self._memory(), **self._clock(now), "ended_at": now}

    def _memory(self) -> dict[str, object]:
        """What is known of the GPU's memory so far."""
        known: dict[str, object] = {}
        if self._thrift != Thrift.of(self._spec):
            known["retried_with"] = str(self._thrift)
        if self._gpus > 0:
            known |= {"gpu_share": self._gpus, "gpu_gb": self._gpu_gb}
        if (peak := gpu_memory.peak_gpu_memory(self._device)) is not None:
            known["peak_gpu_gb"] = peak
        return known

    def _clock(self, now: float) -> dict[str, object]:
        return {
            "wall_seconds": now - self._accepted,
            "started_at": self._accepted,
            "first_step_at": self._first_step,
            "worker": f"{socket.gethostname()}:{os.getpid()}",
        }


def trainable_with(**settings: Any) -> type[tune.Trainable]:
    """The class whose workers get ``settings`` in their :meth:`~UnlearningTrainable.setup`.

    They travel with the class. ``tune.with_parameters`` puts each in Ray's object store instead, and a driver that owns
    something there, or puts it there, is ended by Ray, with exit code 1 and without a word, as soon as the store's node
    is gone. Left to it are settings too large for a class, such as the pixels of CIFAR, which workers share there.
    """
    if _is_large(settings):
        stored: type[tune.Trainable] = tune.with_parameters(UnlearningTrainable, **settings)
        return stored
    setup = partialmethod(UnlearningTrainable.setup, **settings)
    return type(UnlearningTrainable.__name__, (UnlearningTrainable,), {"setup": setup, "__module__": __name__})


def task_with(
    function: Callable[..., Any], settings: Mapping[str, Any], **options: Any
) -> Callable[..., ray.ObjectRef[Any]]:
    """What submits ``function`` to Ray with ``options``; ``settings`` travel with it as with :func:`trainable_with`."""
    if _is_large(settings):
        return partial(ray.remote(**options)(function).remote, **{name: ray.put(it) for name, it in settings.items()})

    def with_settings(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs, **settings)

    submit: Callable[..., ray.ObjectRef[Any]] = ray.remote(**options)(with_settings).remote
    return submit


def _is_large(settings: Mapping[str, Any]) -> bool:
    return len(cloudpickle.dumps(settings)) > _LARGEST_CLASS


def read_state(folder: Path) -> dict[str, Any] | None:
    """The run state saved in a checkpoint folder; None where there is no whole one that can be read and gone on from.

    Where the run had ended its last report is lost with the worker, so that it runs again.
    """
    state = load_state_file(folder / STATE_FILE)
    return None if state is None or state.get("done") else state
