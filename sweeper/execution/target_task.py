"""Prepare the target on this machine or on a node with a GPU, and show the progress.

If a node prepares the target, it writes the target to the cache folder, which all nodes share. With object storage, the
node uploads the target, and the driver downloads it.
"""

from __future__ import annotations

import contextlib
import math
import socket
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from sweeper.console import heartbeat, progress_bar
from sweeper.settings.resources import local_gpu_count
from trainables import plugins
from trainables.metrics.registry import primary_metrics
from trainables.spec import TrialSpec
from trainables.storage import Storage
from trainables.target.cache import Cache, NotCached, TargetError
from trainables.target.notes import data_notes
from trainables.target.prepare import RETAIN, WAITING, Preparation, prepare_target
from trainables.target.shared import fetch_target, share_target
from trainables.target.target import Target, TargetSpec, target_spec_of
from trainables.target.training import Progress
from trainables.worker.failures import one_line

if TYPE_CHECKING:
    from sweeper.execution.cluster import Cluster
    from sweeper.settings.sweep_settings import SweepSettings

Show = Callable[[Progress], None]
FillCache = Callable[[TrialSpec, Show], None]
_ATTEMPTS = 3
"""How often the preparation is tried. Each attempt continues from the last saved training state."""
_POLL_SECONDS = 0.4

plugins.active()  # load the plug-ins before a worker unpickles a target spec that uses their parts


# On this machine -----------------------------------------------------------------------------------------------------


def prepare_with_progress(
    spec: TrialSpec, *, console: Console, fill_cache: FillCache | None = None, measured: bool = True
) -> Target:
    """Prepare the target in this process, and show the progress. ``measured``: whether its scores are needed.

    If given, ``fill_cache(spec, show)`` is called first. It makes another process or a node add the target to the
    cache.
    """
    print_data_notes(target_spec_of(spec), console)
    first = "loading the target and measuring its metrics" if measured else "loading the target"
    with progress_shown(spec, console, first=first) as (show, last_progress):
        if fill_cache is not None:
            fill_cache(spec, show)
        target = prepare_target(spec, on_progress=show, measured=measured)
    print_left_out_metrics(target.left_out, console)
    if progress := last_progress.get("target"):
        names = ("forget_loss_capped", "retain_loss", *primary_metrics(target.data.modality))
        scores = ", ".join(f"{name} {target.baseline[name]:.3f}" for name in names if name in target.baseline)
        made = f"the target {spec.model} is fine-tuned ({progress.text}) and cached"
        console.print(f"{made}: {scores}" if scores else made, soft_wrap=True)
    return target


def retain_model_with_progress(spec: TrialSpec, *, console: Console) -> Path:
    """Return the folder of the retain model, which is trained only on the retain set. Show the progress."""
    with progress_shown(spec, console) as (show, _):
        return Preparation(spec=target_spec_of(spec), on_progress=show).retain_model()


def print_data_notes(spec: TargetSpec, console: Console) -> None:
    for note in data_notes(spec):
        console.print(f"note: {note}", soft_wrap=True)


def print_left_out_metrics(names: Sequence[str], console: Console) -> None:
    """Print the names of the metrics that cannot be measured without a retain model."""
    if names:
        console.print(
            f"metrics left out because there is no retain model: {', '.join(names)}. Pass a retain model with "
            "--retain-model DIR ('python -m sweeper target --retain-only --out DIR' trains one)",
            soft_wrap=True,
        )


@contextlib.contextmanager
def progress_shown(
    spec: TrialSpec, console: Console, *, first: str = "loading the target and measuring its metrics"
) -> Iterator[tuple[Show, dict[str, Progress]]]:
    """Show the progress of preparing the target while the block runs. Before the first report, show the text ``first``.

    Yields:
        A function that shows a progress report, and a mapping from model to its last report.
    """
    last_progress: dict[str, Progress] = {}
    line = first
    with progress_bar(console) as bar, heartbeat(console, lambda: line):
        task = bar.add_task(first, total=None)

        def show(progress: Progress) -> None:
            nonlocal line
            is_retain = progress.text.startswith(RETAIN)
            model = "retain model" if is_retain else "target"
            if progress.text.endswith(WAITING):
                line = f"{model}: {WAITING}"
                bar.update(task, description=line)
                console.print(line)
                return
            if model not in last_progress and not console.is_terminal:
                data = f"the retain set of {spec.dataset}" if is_retain else spec.dataset
                console.print(f"fine-tuning the {model} {spec.model} on {data}")
            last_progress[model] = progress
            text = progress.text if is_retain else f"target, {progress.text}"
            line = f"{text} (step {progress.done} of {progress.total})"
            bar.update(task, completed=progress.done, total=progress.total, description=text)

        yield show, last_progress
    if progress := last_progress.get("retain model"):
        console.print(f"the retain model is trained ({progress.text.removeprefix(RETAIN)}) and cached")


# On a node -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PreparedTarget:
    """A target that a node has prepared.

    Attributes:
        key: the key of the target; "" if no target was prepared.
        notes: the JSON entries about the target in the node's cache.
        problem: the text ``NODE has no folder FOLDER`` if a required folder does not exist on the node, otherwise None.
    """

    key: str = ""
    notes: dict[str, dict[str, Any]] = field(default_factory=dict)
    problem: str | None = None


def is_prepared_remotely(settings: SweepSettings) -> bool:
    """Return whether a node with a GPU prepares the target instead of this machine."""
    return settings.address is not None and settings.resources.gpus > 0 and not local_gpu_count()


def prepare_for_sweep(
    spec: TrialSpec,
    *,
    settings: SweepSettings,
    cluster: Cluster,
    out: Path,
    console: Console,
    fill_cache: FillCache | None = None,
) -> Target:
    """Return the target for the trials of a sweep. Prepare it on this machine or on a node with a GPU.

    ``fill_cache`` is the function that :func:`~sweeper.execution.target_process.target_process` yields. It is not
    called if a node prepares the target.
    """

    def prepare_remotely(spec: TrialSpec, show: Show) -> None:
        target_spec = target_spec_of(spec)
        cache = Cache()
        with contextlib.suppress(NotCached):
            Preparation(spec=target_spec, cache=Cache(computing=False)).target()
            return
        cache.folder.mkdir(parents=True, exist_ok=True)
        cluster.slots(shared_folders=settings.shared_folders(out.resolve(), cache.folder))
        console.print("preparing the target on a node with a GPU, because this machine has none", soft_wrap=True)
        shared_cache = None if settings.bucket else cache.folder
        prepared = _run_task(target_spec, settings, shared_cache, show)
        if prepared.problem:
            console.print(f"node {prepared.problem}, so the target is prepared here, without a GPU", soft_wrap=True)
        elif settings.bucket:
            if target_spec.target_path is None:  # otherwise this machine has the model
                fetch_target(prepared.key, cache.folder / "targets" / target_spec.trained_key, settings.bucket)
            cache.add_notes(prepared.notes)

    if is_prepared_remotely(settings):
        fill_cache = prepare_remotely
    return prepare_with_progress(spec, console=console, fill_cache=fill_cache)


def _run_task(target_spec: TargetSpec, settings: SweepSettings, cache: Path | None, show: Show) -> PreparedTarget:
    """Prepare the target in a Ray worker. If the worker dies, start another worker."""
    import ray
    from ray.exceptions import RayError, RayTaskError

    resources = {"num_cpus": settings.cpus_per_trial, "num_gpus": math.ceil(settings.resources.gpus)}
    for attempt in range(_ATTEMPTS):
        worker = ray.remote(max_concurrency=2, **resources)(TargetTask).remote()  # the methods run concurrently
        task = worker.prepare.remote(target_spec, cache, settings.bucket)
        try:
            is_done = False
            while not is_done:
                done, _ = ray.wait([task], timeout=_POLL_SECONDS)
                is_done = bool(done)
                for progress in ray.get(worker.pop_progress.remote()):
                    show(progress)
            result: PreparedTarget = ray.get(task)
            return result
        except RayTaskError as error:
            if hasattr(error.cause, "exit_code"):  # an error that a user can fix
                raise error.cause from None
            print(error, file=sys.stderr)  # Ray's text is the worker's traceback
            raise TargetError(f"the worker that prepares the target failed: {one_line(str(error))}") from None
        except RayError as error:
            if attempt == _ATTEMPTS - 1:
                reason = one_line(str(error))
                raise TargetError(
                    f"the worker that prepares the target died {_ATTEMPTS} times, perhaps because the memory is full: "
                    f"{reason}"
                ) from None
        finally:
            ray.kill(worker)  # releases its GPU
    raise AssertionError("unreachable")


class TargetTask:
    """A Ray actor that prepares the target. :meth:`pop_progress` can be called while :meth:`prepare` runs."""

    def __init__(self) -> None:
        self._reports: deque[Progress] = deque()

    def pop_progress(self) -> list[Progress]:
        """Return the progress reports since the previous call."""
        return [self._reports.popleft() for _ in range(len(self._reports))]

    def prepare(self, target_spec: TargetSpec, cache: Path | None, storage: Storage | None) -> PreparedTarget:
        """Prepare the target in the folder ``cache``, by default the node's own. Upload it to ``storage``, if given."""
        for folder in (target_spec.base_folder, target_spec.target_path, target_spec.retain_path):
            if folder is not None and not folder.is_dir():
                return PreparedTarget(problem=f"{socket.gethostname()} has no folder {folder}")

        local_cache = Cache(cache)
        target = Preparation(spec=target_spec, cache=local_cache, on_progress=self._reports.append).target()
        if storage is not None:
            share_target(target, storage)
        return PreparedTarget(key=target.key, notes=local_cache.notes)
