"""Where trials run: Ray on this machine or a running cluster, and whether what a trial asks for exists there."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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
    # Tune's snapshots are not what a sweep resumes from.
    "TUNE_GLOBAL_CHECKPOINT_S": "600",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
}


class PlacementError(RuntimeError):
    """Trials cannot be placed; the message is a plain sentence for the user."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Resources:
    """What one trial takes: fractions of a GPU share it with others, CPU threads are whole."""

    cpus: float
    gpus: float


def address_problem(address: str | None) -> str | None:
    """Why no cluster can be joined at an address, in a few seconds; Ray itself tries a closed port for minutes."""
    if address is None or address == "auto":
        return None
    if "://" in address:
        return f"--address {address}: expected HOST:PORT or 'auto'; a sweep joins a cluster from one of its own nodes"
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        return f"--address {address}: expected HOST:PORT or 'auto'"
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=5.0).close()
    except (OSError, OverflowError) as error:
        return f"--address {address}: no Ray cluster answers there ({error})"
    return None


@contextlib.contextmanager
def ray_cluster(address: str | None, *, resources: Resources, shared: tuple[Path, ...] = ()) -> Iterator[int]:
    """Join the cluster at ``address``, or start Ray here; yields how many trials fit at once.

    Raises:
        PlacementError: no cluster answers, no node has what a trial asks for, or a node does not see a shared folder.
    """
    os.environ.update({key: value for key, value in RAY_ENVIRONMENT.items() if key not in os.environ})
    import ray

    try:
        _start(address)
        # Ray reports a dead worker on stdout, which belongs to what the user asked to have printed.
        with contextlib.redirect_stdout(sys.stderr):
            slots = _slots([node for node in ray.nodes() if node["Alive"]], resources)
            require_shared(shared)
            yield slots
    finally:
        ray.shutdown()


def _start(address: str | None) -> None:
    import ray

    try:
        ray.init(
            address=address or "local",
            log_to_driver=False,
            logging_level=logging.ERROR,
            **({} if address else {"include_dashboard": False, "configure_logging": True}),
        )
    except (ConnectionError, OSError, ValueError, RuntimeError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        if address is None:
            raise PlacementError(f"cannot start Ray on this machine: {reason}") from None
        # Ray shows a token of its own accord only to clusters found by 'auto', and a wrong guess fails every trial.
        hint = "" if "RAY_AUTH_MODE" in os.environ else "; if the cluster asks for a token, set RAY_AUTH_MODE=token"
        raise PlacementError(f"cannot join a Ray cluster at '{address}': {reason}{hint}") from None


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

    nodes = [node for node in ray.nodes() if node["Alive"]]
    if len(nodes) < 2:
        return
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    def find_unseen(paths: list[str]) -> list[str]:
        return [path for path in paths if not os.path.isdir(path)]

    unseen = ray.remote(num_cpus=0)(find_unseen)
    paths = [str(path) for path in shared]
    for node in nodes:
        strategy = NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False)
        missing = ray.get(unseen.options(scheduling_strategy=strategy).remote(paths))
        if missing:
            raise PlacementError(
                f"node {node['NodeManagerHostname']} does not see {', '.join(missing)}: put --out and the cache "
                "(XDG_CACHE_HOME) on storage all nodes share"
            )
