"""Ray for one sweep: started ahead of when it is needed, and left behind without waiting for it to stop."""

from __future__ import annotations

import gc
import importlib
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from search_spaces.phases import phase
from sweeper.execution.forkserver.server import fork_server, is_possible
from sweeper.execution.placement import PlacementError, address_problem, ray_cluster, require_shared
from sweeper.execution.shutdown import held_back, keeping_sigterm
from sweeper.settings.sweep_settings import SweepSettings

_AHEAD = ("ray.tune", "sweeper.execution.ray_bridge", "sweeper.search.study", "optuna", "mlflow.tracking")
_AT_THE_END = ("analysis.report.report", "analysis.figures.gallery", "matplotlib.backends.backend_agg")


class Cluster:
    """Where the trials of a sweep run, once it has been asked for; a signal waits until Ray has started: half started,
    it leaves processes behind, or crashes."""

    def __init__(self, settings: SweepSettings) -> None:
        self._settings = settings
        self._stack = ExitStack()
        self._slots: int | None = None
        self._leaving: threading.Thread | None = None

    def slots(self, *, sharing: tuple[Path, ...]) -> int:
        """How many trials fit at once, on nodes that all see the folders ``sharing``.

        Raises:
            PlacementError: there is no cluster, or it is not fit.
        """
        with phase("start of Ray"):
            return self._reached(sharing)

    def _reached(self, sharing: tuple[Path, ...]) -> int:
        if self._slots is None:
            settings = self._settings
            if problem := address_problem(settings.address):
                raise PlacementError(problem)
            with held_back(), _without_rays_sigterm():
                python = self._python()
                ray = ray_cluster(settings.address, resources=settings.resources, ship=settings.ship, python=python)
                self._slots = self._stack.enter_context(ray)
        require_shared(sharing)
        return self._slots

    def _python(self) -> str | None:
        """What starts a worker of this machine, where that is not Python as ever.

        With GPUs it is: a process that has looked at one cannot be forked, and some package may do so when imported.
        """
        settings = self._settings
        if settings.address is not None or settings.resources.gpus > 0 or not is_possible():
            return None
        return self._stack.enter_context(fork_server(threads=max(1, int(settings.cpus_per_trial))))

    def leave(self) -> None:
        """Stop what was started, while the caller goes on."""
        if self._leaving is None and self._slots is not None:
            # What Tune leaves in cycles holds references of Ray's: collected while Ray is being left, they crash it.
            gc.freeze()
            self._leaving = threading.Thread(target=self._leave)
            self._leaving.start()

    def _leave(self) -> None:
        with keeping_sigterm():
            self._stack.close()

    def close(self) -> None:
        """Stop what was started."""
        if self._leaving is not None:
            self._leaving.join()
            gc.unfreeze()
        self._stack.close()


@contextmanager
def _without_rays_sigterm() -> Iterator[None]:
    """Keep the handler of SIGTERM while Ray starts: Ray's own ends the process without a word."""
    import ray  # whole: another thread is importing it, too

    utils = ray._private.utils
    own = utils.set_sigterm_handler
    utils.set_sigterm_handler = lambda handler: None
    try:
        yield
    finally:
        utils.set_sigterm_handler = own


@contextmanager
def cluster_of(settings: SweepSettings) -> Iterator[Cluster]:
    """The cluster of a sweep, which is left at the end."""
    cluster = Cluster(settings)
    try:
        yield cluster
    finally:
        cluster.close()


@contextmanager
def imported_beside() -> Iterator[None]:
    """Import what the sweep needs next beside the block, and have it at its end.

    No longer than that: two threads that import the same packages at once may find one half made. Garbage waits until
    then: a fifth of an import goes into looking for some.
    """
    collects = gc.isenabled()
    gc.disable()
    thread = _import_in_background(_AHEAD)
    try:
        yield
    finally:
        try:
            thread.join()
        finally:
            if collects:
                gc.enable()


def import_for_the_end() -> None:
    """Import beside the trials what draws and writes the report."""
    _import_in_background(_AT_THE_END)


def _import_in_background(modules: tuple[str, ...]) -> threading.Thread:
    def load() -> None:
        for name in modules:
            importlib.import_module(name)

    thread = threading.Thread(target=load, daemon=True, name="imports")
    thread.start()
    return thread
