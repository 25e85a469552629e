"""Check whether a Ray cluster can run trials, and compute how many trials can run at the same time."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from pathlib import Path

from sweeper.execution.nodes import PROJECT, Node, ask_nodes, differences, missing_folders_and_versions, versions
from sweeper.settings.resources import Resources, local_gpu_count

_UNLIMITED = 1 << 20
_DEAD_NODE_SECONDS = 60.0
"""Seconds for which Ray may still list a dead node as alive."""


class PlacementError(RuntimeError):
    """Raised if Ray cannot be started or joined, or cannot run the trials; the message is for the user."""

    exit_code = 2


def address_problem(address: str | None) -> str | None:
    """Return the reason why no Ray cluster can be joined at ``address``, or None. Takes at most a few seconds."""
    if address is None or address == "auto":
        return None
    if "://" in address:
        example = "'ray job submit --address http://HOST:8265 -- python -m sweeper ... --address auto'"
        return (
            f"--address {address}: expected HOST:PORT or 'auto'. A sweep cannot use Ray Client and must be started on "
            f"one of the cluster's machines, for example with {example} (docs/cluster.md)"
        )
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        return f"--address {address}: expected HOST:PORT or 'auto'"
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=5.0).close()
    except (OSError, OverflowError) as error:
        return f"--address {address}: no Ray cluster answers there ({error})"
    return None


def slots_here(resources: Resources) -> int:
    """Return the number of trials that can run on this machine at the same time.

    Raises:
        PlacementError: this machine cannot run a trial.
    """
    return slots([{"Resources": {"CPU": os.cpu_count() or 1, "GPU": local_gpu_count()}}], resources)


def slots(nodes: Sequence[Node], resources: Resources) -> int:
    """Return the number of trials that can run on the nodes at the same time. A trial's GPU share is on a single GPU.

    Raises:
        PlacementError: no node can run a trial.
    """
    sizes = [(node["Resources"].get("CPU", 0), node["Resources"].get("GPU", 0)) for node in nodes]
    total = 0
    for cpus, gpus in sizes:
        by_cpus = _times(resources.cpus, cpus)
        if resources.gpus <= 0:
            by_gpus = _UNLIMITED
        elif resources.gpus < 1:
            by_gpus = int(gpus) * _times(resources.gpus, 1.0)
        else:
            by_gpus = _times(resources.gpus, gpus)
        total += min(by_cpus, by_gpus)
    if total == 0:
        available = ", ".join(f"{cpus:g} CPUs and {gpus:g} GPUs" for cpus, gpus in sizes)
        raise PlacementError(
            f"no node can run a trial that takes {resources.cpus:g} CPUs and {resources.gpus:g} GPUs. The nodes have "
            f"{available}. Lower --cpus-per-trial or --gpus-per-trial"
        )
    return total


def _times(demand: float, capacity: float) -> int:
    """Return how often ``demand`` fits into ``capacity``, without rounding errors such as 2 // 0.1 == 19."""
    return int(capacity / demand + 1e-9) if demand > 0 else _UNLIMITED


def require_shared(folders: Sequence[Path]) -> None:
    """Check that all nodes see the folders and have the driver's package versions.

    Raises:
        PlacementError: a node does not answer, does not see a folder, or has another version of a package.
    """
    import ray

    deadline = time.monotonic() + _DEAD_NODE_SECONDS
    while True:
        nodes = [node for node in ray.nodes() if node["Alive"]]
        if len(nodes) <= 1:
            return  # a single node sees its own folders
        answers = ask_nodes(missing_folders_and_versions, [str(path) for path in folders], nodes=nodes)
        silent_nodes = [name for name, answer in answers.items() if answer is None]
        if not silent_nodes:
            break
        if time.monotonic() > deadline:
            raise PlacementError(
                f"node {', '.join(silent_nodes)} is part of the cluster but does not answer. Wait until the node "
                "answers, or remove it by running 'ray stop' on the node"
            )
        time.sleep(2.0)
    driver_versions = versions()
    if is_shipped():
        del driver_versions[PROJECT]
    for name, answer in answers.items():
        missing, node_versions = answer or ([], {})
        if missing:
            raise PlacementError(
                f"node {name} has no folder {', '.join(missing)}. Put --out and the cache (XDG_CACHE_HOME) on storage "
                "that all nodes share"
            )
        if mismatches := differences(driver_versions, node_versions):
            raise PlacementError(
                f"node {name} has other package versions than this machine: {', '.join(mismatches)}. Install the "
                "versions in constraints.txt on all nodes; 'sweeper doctor --address' checks them"
            )


def is_shipped() -> bool:
    """Return whether Ray copies the project's source code to the nodes."""
    import ray

    return bool(ray.is_initialized() and "py_modules" in (ray.get_runtime_context().runtime_env or {}))
