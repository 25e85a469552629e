"""Start Ray or join a Ray cluster for one sweep. Shut Ray down after the sweep.

By default, Ray copies the project's source code from the driver to the nodes of a cluster, so all workers run the
driver's version. Other packages, such as torch, must be installed on all nodes in the driver's versions (checked by
:func:`sweeper.execution.placement.require_shared`).
"""

from __future__ import annotations

import gc
import importlib
import importlib.resources
import json
import logging
import os
import shlex
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from search_spaces.common.messages import first_line
from sweeper.execution.fork_server import fork_server, is_possible
from sweeper.execution.placement import PlacementError, address_problem, require_shared, slots
from sweeper.execution.ray_start import START_SECONDS, start_ray
from sweeper.execution.shutdown import defer_signals, preserve_sigterm_handler
from sweeper.settings.resources import Resources
from sweeper.store.version import PACKAGES
from trainables.plugins import VARIABLE

if TYPE_CHECKING:
    from sweeper.settings.sweep_settings import SweepSettings

RAY_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS": "1",
    # Seconds that this process survives after the loss of Ray's head. The report and MLflow need less time.
    "RAY_gcs_rpc_server_reconnect_timeout_s": "600",
    # On a busy machine, the imports of Ray's processes can take longer than Ray's own limits of 30 to 60 s.
    "RAY_agent_register_timeout_ms": f"{1000 * START_SECONDS:.0f}",
    "RAY_worker_register_timeout_seconds": f"{START_SECONDS:.0f}",
    "RAY_raylet_start_wait_time_s": f"{START_SECONDS:.0f}",
    # With Ray's own niceness of 15, trials would hardly run beside other programs (benchmarks/busy_machine.py).
    "RAY_worker_niceness": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    # Prestarted workers never run trials: Ray starts other workers for actors.
    "RAY_prestart_worker_first_driver": "0",
    # Under 'uv run' Ray would start each worker with another 'uv run', in a copy of the working folder that has no
    # environment.
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    # Tune's snapshots are written rarely, because no sweep resumes from them.
    "TUNE_GLOBAL_CHECKPOINT_S": "600",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
}
_JOB_CONFIG = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""The environment variable with a submitted job's runtime environment. The driver can only add entries to it."""
_IMPORTED_AT_START = ("ray.tune", "sweeper.driver.ray_bridge", "sweeper.search.study", "optuna", "mlflow.tracking")
_IMPORTED_FOR_REPORT = ("analysis.report.report", "analysis.figures.gallery", "matplotlib.backends.backend_agg")


# Ray's environment ---------------------------------------------------------------------------------------------------


def set_environment(address: str | None) -> None:
    """Set the environment variables that Ray reads on import. Must be called before Ray is imported."""
    variables = dict(RAY_ENVIRONMENT)
    if address is None:
        # Keep Ray's ports on the loopback interface. This is the default on Windows and macOS.
        variables["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    for name, value in variables.items():
        os.environ.setdefault(name, value)


def project_folders() -> list[str]:
    return [str(importlib.resources.files(name)) for name in PACKAGES]


def runtime_env(*, ship: bool) -> dict[str, Any]:
    """Return Ray's runtime environment: the list of plug-ins and, if ``ship`` is true, the project's source code."""
    submitted = json.loads(os.environ.get(_JOB_CONFIG, "{}")).get("runtime_env") or {}
    plugins = os.environ.get(VARIABLE)
    environment: dict[str, Any] = {"env_vars": {VARIABLE: plugins}} if plugins else {}
    if ship and "py_modules" not in submitted:
        environment["py_modules"] = project_folders()
        if "excludes" not in submitted:
            environment["excludes"] = ["__pycache__"]
    return environment


# Starting and leaving Ray --------------------------------------------------------------------------------------------


@contextmanager
def ray_cluster(
    address: str | None, *, resources: Resources, ship: bool = False, python: Sequence[str] | None = None
) -> Iterator[int]:
    """Join the cluster at ``address``, or start Ray on this machine. Shut Ray down when the block ends.

    Yields the number of trials that can run at the same time.

    Args:
        resources: the resources of one trial.
        ship: whether Ray copies the project's source code to the nodes of a cluster.
        python: the command that starts a worker on this machine. If None, workers use this Python interpreter.

    Raises:
        PlacementError: Ray cannot be started or joined, or no node can run a trial.
    """
    set_environment(address)
    import ray

    options: dict[str, Any] = {"include_dashboard": False, "configure_logging": True}
    if address is not None:
        environment = runtime_env(ship=ship)
        options = {"runtime_env": environment} if environment else {}
    elif python is not None:
        options["runtime_env"] = {"py_executable": shlex.join(python)}
    try:
        if address is None:
            start_ray(**options)
        else:
            _join(address, options)
        # Ray prints messages about dead workers to stdout, which is reserved for the command's result.
        with redirect_stdout(sys.stderr):
            alive_nodes = [node for node in ray.nodes() if node["Alive"]]
            yield slots(alive_nodes, resources)
    finally:
        ray.shutdown()


def _join(address: str, options: Mapping[str, Any]) -> None:
    """Join the cluster at ``address``.

    Raises:
        PlacementError: no cluster can be joined; the message has the reason.
    """
    import ray

    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **options)
    except Exception as error:
        raise PlacementError(
            f"cannot join a Ray cluster at '{address}': {first_line(error)}. If the cluster requires a token, set "
            "RAY_AUTH_MODE=token and put the token into ~/.ray/auth_token (docs/cluster.md)"
        ) from None


class Cluster:
    """The Ray cluster of a sweep. The first call to :meth:`slots` starts or joins the cluster.

    ``is_shared`` says that other sweeps with the same placement use the cluster afterwards, so that only :meth:`close`
    shuts it down.
    """

    def __init__(self, settings: SweepSettings, *, is_shared: bool = False) -> None:
        self._settings = settings
        self._is_shared = is_shared
        self._stack = ExitStack()
        self._slots: int | None = None
        self._shutdown_thread: threading.Thread | None = None

    def slots(self, *, shared_folders: tuple[Path, ...]) -> int:
        """Return the number of trials that can run at the same time.

        On a cluster, every call checks that all nodes see the folders ``shared_folders`` and have the driver's package
        versions.
        """
        settings = self._settings
        if self._slots is None:
            if problem := address_problem(settings.address):
                raise PlacementError(problem)
            set_environment(settings.address)
            # An interrupted start may crash or leave Ray processes running.
            with _import_in_parallel(), defer_signals(), _without_rays_sigterm_handler():
                ray = ray_cluster(
                    settings.address, resources=settings.resources, ship=settings.ship, python=self.python
                )
                self._slots = self._stack.enter_context(ray)
        if settings.address is not None:  # the check would hang if a local Ray has lost its head
            require_shared(shared_folders)
        return self._slots

    @cached_property
    def python(self) -> Sequence[str] | None:
        """The command that forks a Python process from the fork server, or None if processes are not forked.

        The first access starts the fork server. Processes that use GPUs are not forked, because CUDA does not work in a
        fork if an import has initialised CUDA in the server.
        """
        settings = self._settings
        if settings.address is not None or settings.resources.gpus > 0 or not is_possible():
            return None
        threads = max(1, int(settings.cpus_per_trial))
        return self._stack.enter_context(fork_server(threads=threads))

    def can_run(self, settings: SweepSettings) -> bool:
        """Return whether a sweep with these settings can use the cluster: its trials are placed in the same way."""
        names = ("address", "resources", "ship", "cpus_per_trial")
        return all(getattr(settings, name) == getattr(self._settings, name) for name in names)

    def sweep_ended(self) -> None:
        """Shut Ray down in another thread while the report is written, unless the cluster is shared.

        This saves about 2 s.
        """
        if not self._is_shared:
            self._start_shutdown()

    def _start_shutdown(self) -> None:
        if self._shutdown_thread is None and self._slots is not None:
            # Tune leaves Ray objects in reference cycles. Ray crashes if they are garbage-collected during shutdown.
            gc.freeze()
            self._shutdown_thread = threading.Thread(target=self._shut_down)
            self._shutdown_thread.start()

    def _shut_down(self) -> None:
        with preserve_sigterm_handler():
            self._stack.close()

    def close(self) -> None:
        """Shut Ray down, and wait until the shutdown is complete."""
        if self._is_shared:
            self._start_shutdown()
        if self._shutdown_thread is not None:
            self._shutdown_thread.join()
            gc.unfreeze()
        self._stack.close()


@contextmanager
def _without_rays_sigterm_handler() -> Iterator[None]:
    """While Ray starts, prevent it from installing its SIGTERM handler, which ends the process silently."""
    import ray  # the whole package, because another thread imports it at the same time

    utils = ray._private.utils
    original = utils.set_sigterm_handler
    utils.set_sigterm_handler = lambda handler: None
    try:
        yield
    finally:
        utils.set_sigterm_handler = original


# Imports in the background -------------------------------------------------------------------------------------------


@contextmanager
def _import_in_parallel() -> Iterator[None]:
    """While the block runs, import :data:`_IMPORTED_AT_START` in another thread.

    The block ends only after the imports, because two threads must not import a package at the same time. During the
    imports, garbage collection is disabled, because it would take a fifth of the import time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    thread = _import_in_thread(_IMPORTED_AT_START)
    try:
        yield
    finally:
        try:
            thread.join()
        finally:
            if was_enabled:
                gc.enable()


def import_for_report() -> None:
    _import_in_thread(_IMPORTED_FOR_REPORT)


def _import_in_thread(modules: tuple[str, ...]) -> threading.Thread:
    def load() -> None:
        for name in modules:
            importlib.import_module(name)

    thread = threading.Thread(target=load, daemon=True, name="imports")
    thread.start()
    return thread
