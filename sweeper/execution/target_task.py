"""The target made by a worker on a node of the cluster: where the GPUs are, for a driver whose machine has none.

The driver reads the data and the worker does the rest, in the cache that all nodes share or, where the sweep has a
storage instead, in its own, from where the model goes through the storage.
"""

from __future__ import annotations

import contextlib
import math
import queue
import socket
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from sweeper.execution.cluster import Cluster
from sweeper.execution.target_progress import Show, prepare_with_progress
from sweeper.settings.resources import gpus_here
from sweeper.settings.sweep_settings import SweepSettings
from trainables import plugins
from trainables.run.failures import one_line
from trainables.spec import TrialSpec
from trainables.storage import Storage
from trainables.target.cache import Cache, NotCached
from trainables.target.finetune import Progress, TargetError
from trainables.target.prepare import target_of
from trainables.target.problem import Problem, problem_of
from trainables.target.shared import fetch_target, share_target
from trainables.target.target import Target

_STARTS = 3
"""Of a worker that dies, its node with it; fine-tuning goes on from its last saved state."""
_NEWS = 1.0
"""Seconds that a question for news may take."""

plugins.active()  # what a plug-in defines may be in the problem that this process receives


@dataclass(frozen=True, slots=True)
class Made:
    """The target's key, and the notes on it and on its retain model that are in the cache of the node that made it."""

    key: str
    notes: Mapping[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class NotMade:
    """Why it could not be made, in a sentence."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unseen:
    """A folder that the problem names and the node does not have."""

    node: str
    folder: Path


News = Progress | Made | NotMade | Unseen


def is_made_elsewhere(settings: SweepSettings) -> bool:
    """Whether the trials have GPUs and this machine has none."""
    return settings.address is not None and settings.resources.gpus > 0 and not gpus_here()


def prepared(spec: TrialSpec, *, settings: SweepSettings, cluster: Cluster, out: Path, console: Console) -> Target:
    """The target of a sweep's trials, from the cache or made now: by a worker where only trials have a GPU, or here.

    Raises:
        DataError, TargetError, LoadError, PlacementError, StorageError: with a plain sentence.
    """
    if not is_made_elsewhere(settings):
        return prepare_with_progress(spec, console=console)

    def say(line: str) -> None:
        console.print(line, highlight=False, markup=False, soft_wrap=True)

    def elsewhere(spec: TrialSpec, show: Show) -> None:
        make_on_a_node(spec, settings, cluster, out, show=show, say=say)

    return prepare_with_progress(spec, console=console, elsewhere=elsewhere)


def make_on_a_node(
    spec: TrialSpec, settings: SweepSettings, cluster: Cluster, out: Path, *, show: Show, say: Callable[[str], None]
) -> None:
    """Have in the cache of this machine what a target needs, unless it is there: made by a worker with a GPU.

    Where that does not see the folder of a model it is left to this machine, and told.

    Raises:
        TargetError: it cannot be made.
        DataError, LoadError, PlacementError, StorageError: with a plain sentence.
    """
    problem, own = problem_of(spec), Cache()
    with contextlib.suppress(NotCached):
        target_of(problem, cache=Cache(computing=False))
        return
    own.folder.mkdir(parents=True, exist_ok=True)
    cluster.slots(sharing=settings.shared(out.resolve(), own.folder))
    say("the target is made by a worker, since this machine has no GPU")
    made = _made(problem, settings, None if settings.bucket else own.folder, show)
    if isinstance(made, Unseen):
        say(f"node {made.node} does not see {made.folder}: the target is made here, without a GPU")
    elif settings.bucket:
        fetch_target(made.key, own.folder / "targets" / problem.trained_key, settings.bucket)
        own.take_over(made.notes)


def _made(problem: Problem, settings: SweepSettings, cache: Path | None, show: Show) -> Made | Unseen:
    from ray.exceptions import RayError

    for start in range(1, _STARTS + 1):
        try:
            for news in _told_by_worker(problem, settings, cache):
                if isinstance(news, Made | Unseen):
                    return news
                if isinstance(news, NotMade):
                    raise TargetError(news.reason)
                show(news)
        except RayError as error:
            if start == _STARTS:
                raise TargetError(
                    f"the worker that makes the target died {_STARTS} times: {one_line(str(error))}"
                ) from None
    raise AssertionError("unreachable")


def _told_by_worker(problem: Problem, settings: SweepSettings, cache: Path | None) -> Iterator[News]:
    """What the worker tells; it ends, and gives back its GPU, when nobody listens any more."""
    import ray

    resources = {"num_cpus": settings.cpus_per_trial, "num_gpus": math.ceil(settings.resources.gpus)}
    worker = ray.remote(**resources)(TargetMaker).remote(problem, cache, settings.bucket)
    try:
        while True:
            yield from ray.get(worker.news.remote())
    finally:
        ray.kill(worker)


class TargetMaker:
    """The worker: makes the target beside answering what the news are."""

    def __init__(self, problem: Problem, cache: Path | None, storage: Storage | None) -> None:
        self._news: queue.SimpleQueue[News] = queue.SimpleQueue()
        threading.Thread(target=self._make, args=(problem, cache, storage), daemon=True).start()

    def news(self) -> list[News]:
        """What has happened since the last call, after a second at most."""
        found = []
        with contextlib.suppress(queue.Empty):
            found.append(self._news.get(timeout=_NEWS))
            while True:
                found.append(self._news.get_nowait())
        return found

    def _make(self, problem: Problem, cache: Path | None, storage: Storage | None) -> None:
        for folder in filter(None, (problem.base_folder, problem.target_path, problem.retain_path)):
            if not folder.is_dir():
                self._news.put(Unseen(socket.gethostname(), folder))
                return
        try:
            known = Cache(cache)
            target = target_of(problem, cache=known, on_progress=self._news.put)
            if storage is not None:
                share_target(target, storage)
            self._news.put(Made(target.key, known.notes))
        except Exception as error:
            self._news.put(NotMade(one_line(traceback.format_exc()) if not hasattr(error, "exit_code") else str(error)))
