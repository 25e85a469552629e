"""Where trials run: Ray on this machine or a running cluster, and whether what a trial asks for exists there."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sweeper.execution.nodes import PROJECT, Node, ask_nodes, differences, gpu_memory, unseen, versions
from sweeper.execution.shipping import is_shipped, runtime_env
from sweeper.settings.resources import Resources, gpus_here
from trainables.plugins import VARIABLE

RAY_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS": "1",
    # How long the process outlives a head that is gone: long enough for report and MLflow, see head_watch.py.
    "RAY_gcs_rpc_server_reconnect_timeout_s": "600",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    # Workers started before anything is asked of them never become a trial's: Ray starts others for actors.
    "RAY_prestart_worker_first_driver": "0",
    # Under 'uv run' Ray would start each worker by another 'uv run', in a copy of the working folder that has no
    # environment. Workers are what the driver is.
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    # Tune's snapshots are not what a sweep resumes from.
    "TUNE_GLOBAL_CHECKPOINT_S": "600",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
}


_KNOCK = "import sys; from ray._raylet import GcsClient; GcsClient(address=sys.argv[1])"
_NOTICED = 60.0
"""Seconds until Ray should have noticed that a node has died."""


class PlacementError(RuntimeError):
    """Trials cannot be placed; the message is a plain sentence for the user."""

    exit_code = 2


def address_problem(address: str | None) -> str | None:
    """Why no cluster can be joined at an address, in a few seconds; Ray itself tries a closed port for minutes."""
    if address is None or address == "auto":
        return None
    if "://" in address:
        inside = "'ray job submit --address http://HOST:8265 -- python -m sweeper ... --address auto' runs it there"
        return (
            f"--address {address}: expected HOST:PORT or 'auto'; a sweep joins a cluster from one of its own machines, "
            f"not through Ray Client: {inside} (docs/cluster.md)"
        )
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        return f"--address {address}: expected HOST:PORT or 'auto'"
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=5.0).close()
    except (OSError, OverflowError) as error:
        return f"--address {address}: no Ray cluster answers there ({error})"
    return None


def prepare(address: str | None) -> None:
    """What Ray reads in the environment when it is imported, and so before: among it whether a token is shown.

    Raises:
        PlacementError: the cluster asks for a token, and there is none or another.
    """
    _set_environment(address)
    if address in (None, "auto") or "RAY_AUTH_MODE" in os.environ or address_problem(address) or _is_open_to(address):
        return
    # Ray shows a token of its own accord only to clusters found by 'auto'; one that nobody asks for costs the workers.
    if not _is_open_to(address, RAY_AUTH_MODE="token"):
        raise PlacementError(
            f"the Ray cluster at {address} asks for a token, and there is none here, or another: put the cluster's "
            "('ray get-auth-token' on its head prints it) into ~/.ray/auth_token or RAY_AUTH_TOKEN"
        )
    os.environ["RAY_AUTH_MODE"] = "token"


def _set_environment(address: str | None) -> None:
    # On a single machine nobody else is to reach Ray's ports, as on Windows and macOS, where this is the default.
    alone = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"} if address is None else {}
    os.environ.update({key: value for key, value in (RAY_ENVIRONMENT | alone).items() if key not in os.environ})


def _is_open_to(address: str, **environment: str) -> bool:
    """Whether a cluster takes a process with this environment; in one of its own, as Ray reads it but once."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", _KNOCK, address],
            env={**os.environ, **environment},
            capture_output=True,
            timeout=30,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return True  # what else is wrong Ray will say
    return b"uthentication" not in done.stdout + done.stderr  # AuthenticationError, "no authentication token"


@contextlib.contextmanager
def ray_cluster(
    address: str | None,
    *,
    resources: Resources,
    shared: tuple[Path, ...] = (),
    ship: bool = False,
    python: str | None = None,
) -> Iterator[int]:
    """Join the cluster at ``address``, or start Ray here; yields how many trials fit at once.

    With ``ship`` the nodes of a cluster get this project from here. ``python`` is what starts workers here in place of
    this interpreter.

    Raises:
        PlacementError: no cluster answers, no node has what a trial asks for, or a node does not see a shared folder.
    """
    _set_environment(address)
    import ray

    try:
        _start(address, ship=ship, python=python)
        # Ray reports a dead worker on stdout, which belongs to what the user asked to have printed.
        with contextlib.redirect_stdout(sys.stderr):
            slots = _slots([node for node in ray.nodes() if node["Alive"]], resources)
            require_shared(shared)
            yield slots
    finally:
        ray.shutdown()


def _start(address: str | None, *, ship: bool, python: str | None) -> None:
    import ray

    alone: dict[str, object] = {"include_dashboard": False, "configure_logging": True}
    if python is not None:
        alone["runtime_env"] = {"py_executable": python}
    try:
        ray.init(
            address=address or "local",
            log_to_driver=False,
            logging_level=logging.ERROR,
            **(_handed_on(ship) if address else alone),
        )
    except Exception as error:  # Ray has none of its own for a start that takes too long
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        if address is None:
            raise PlacementError(f"cannot start Ray on this machine: {reason}") from None
        raise PlacementError(f"cannot join a Ray cluster at '{address}': {reason}") from None


def _handed_on(ship: bool) -> dict[str, object]:
    """What nodes that run already get from this process: which plug-ins to read, and its project."""
    told = os.environ.get(VARIABLE)
    environment = runtime_env(ship=ship, variables={VARIABLE: told} if told else {})
    return {"runtime_env": environment} if environment else {}


def slots_here(resources: Resources) -> int:
    """How many trials fit on this machine at once, without Ray.

    Raises:
        PlacementError: none does.
    """
    return _slots([{"Resources": {"CPU": os.cpu_count() or 1, "GPU": gpus_here()}}], resources)


@dataclass(frozen=True, slots=True)
class Gpus:
    """Of the nodes: how many trials of the least share fit, how many GPUs there are, GB of the smallest's memory."""

    slots: int
    count: float
    gb: float | None


def gpus_to_share(least: Resources) -> Gpus:
    """What the Ray that is up has, for trials that take a share of a GPU, of which this is the ``least``."""
    import ray

    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("GPU", 0)]
    sizes = [gb for found in ask_nodes(gpu_memory, nodes=nodes).values() for gb in found or ()]
    return Gpus(
        slots=_slots(nodes, least),
        count=sum(float(node["Resources"]["GPU"]) for node in nodes),
        gb=min(sizes, default=None),
    )


def _times(part: float, whole: float) -> int:
    """How often ``part`` fits into ``whole``: 2 // 0.1 is 19 in floating point."""
    return int(whole / part + 1e-9)


def _slots(nodes: list[dict[str, object]], resources: Resources) -> int:
    """How many trials fit on the nodes at once; a GPU's fractions never span two GPUs."""
    total = 0
    for node in nodes:
        available: dict[str, float] = node["Resources"]  # type: ignore[assignment]
        cpus = _times(resources.cpus, available.get("CPU", 0)) if resources.cpus > 0 else 1 << 20
        gpus = 1 << 20
        if resources.gpus >= 1:
            gpus = _times(resources.gpus, available.get("GPU", 0))
        elif resources.gpus > 0:
            gpus = int(available.get("GPU", 0)) * _times(resources.gpus, 1.0)
        total += min(cpus, gpus)
    if total == 0:
        have = ", ".join(
            f"{node['Resources'].get('CPU', 0):g} CPUs and {node['Resources'].get('GPU', 0):g} GPUs"  # type: ignore[attr-defined]
            for node in nodes
        )
        raise PlacementError(
            f"no node can run a trial that takes {resources.cpus:g} CPUs and {resources.gpus:g} GPUs: the nodes have "
            f"{have}; lower --cpus-per-trial or --gpus-per-trial"
        )
    return total


def require_shared(shared: tuple[Path, ...]) -> None:
    """Every node must see the target and the output folder: workers read the one and write checkpoints to the other.

    Raises:
        PlacementError: a node does not.
    """
    import ray

    deadline = time.monotonic() + _NOTICED
    while len(nodes := [node for node in ray.nodes() if node["Alive"]]) > 1:
        missing = ask_nodes(unseen, [str(path) for path in shared], nodes=nodes)
        silent = [name for name, paths in missing.items() if paths is None]
        if not silent:
            break
        if time.monotonic() > deadline:
            raise PlacementError(
                f"node {', '.join(silent)} is listed by the cluster and does not answer: wait until it is back, or end "
                "it for good with 'ray stop' there"
            )
        time.sleep(2.0)  # a node that has died stays listed for half a minute
    else:
        return
    for name, paths in missing.items():
        if paths:
            raise PlacementError(
                f"node {name} does not see {', '.join(paths)}: put --out and the cache (XDG_CACHE_HOME) on storage all "
                "nodes share"
            )
    _require_alike(nodes)


def _require_alike(nodes: Sequence[Node]) -> None:
    """Weights, states and code travel between driver and nodes: they must be read there as they were written here."""
    here = versions()
    if is_shipped():
        del here[PROJECT]
    for name, there in ask_nodes(versions, nodes=nodes).items():
        if there is not None and (found := differences(here, there)):
            raise PlacementError(
                f"node {name} differs from this one: {', '.join(found)}; install the same versions on all nodes "
                "(constraints.txt), and see 'sweeper doctor --address'"
            )
