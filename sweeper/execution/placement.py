"""Check whether a Ray cluster can run a sweep's trials, and compute how many trials fit at the same time.

The checks cover the cluster's address and resources, the shared folders and the package versions.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sweeper.execution.nodes import PROJECT, Node, ask_nodes, differences, gpu_memory, unseen, versions
from sweeper.settings.resources import Resources, gpus_here

_UNLIMITED = 1 << 20
_DEAD_NODE_SECONDS = 60.0
"""Seconds for which Ray may still list a dead node as alive."""


class PlacementError(RuntimeError):
    """Trials cannot be placed; the message is a sentence for the user."""

    exit_code = 2


def address_problem(address: str | None) -> str | None:
    """Return the reason why no Ray cluster can be joined at ``address``, or None if there is no problem.

    The check takes at most a few seconds, whereas Ray would retry a connection for minutes.
    """
    if address is None or address == "auto":
        return None
    if "://" in address:
        inside = "'ray job submit --address http://HOST:8265 -- python -m sweeper ... --address auto'"
        return (
            f"--address {address}: expected HOST:PORT or 'auto'. A sweep cannot use Ray Client and must be started on "
            f"one of the cluster's machines, for example with {inside} (docs/cluster.md)"
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
    """Return the number of trials that fit on this machine at the same time, without starting Ray.

    Raises:
        PlacementError: no trial fits.
    """
    return slots([{"Resources": {"CPU": os.cpu_count() or 1, "GPU": gpus_here()}}], resources)


def slots(nodes: Sequence[Node], resources: Resources) -> int:
    """Return the number of trials that fit on the nodes at the same time. A GPU share is never split over two GPUs.

    Raises:
        PlacementError: no trial fits.
    """
    total = 0
    for node in nodes:
        cpus, gpus = node["Resources"].get("CPU", 0), node["Resources"].get("GPU", 0)
        by_cpus = _times(resources.cpus, cpus) if resources.cpus > 0 else _UNLIMITED
        by_gpus = _UNLIMITED
        if resources.gpus >= 1:
            by_gpus = _times(resources.gpus, gpus)
        elif resources.gpus > 0:
            by_gpus = int(gpus) * _times(resources.gpus, 1.0)
        total += min(by_cpus, by_gpus)
    if total == 0:
        available = ", ".join(
            f"{node['Resources'].get('CPU', 0):g} CPUs and {node['Resources'].get('GPU', 0):g} GPUs" for node in nodes
        )
        raise PlacementError(
            f"no node can run a trial that takes {resources.cpus:g} CPUs and {resources.gpus:g} GPUs. The nodes have "
            f"{available}. Lower --cpus-per-trial or --gpus-per-trial"
        )
    return total


def _times(part: float, whole: float) -> int:
    """Return how often ``part`` fits into ``whole``, with a tolerance because 2 // 0.1 is 19 in floating point."""
    return int(whole / part + 1e-9)


@dataclass(frozen=True, slots=True)
class Gpus:
    """The GPUs of all nodes.

    ``slots`` is the number of trials that fit if each takes the smallest share, ``count`` the number of GPUs, and
    ``gb`` the memory of the smallest GPU in units of 1e9 bytes, or None if unknown.
    """

    slots: int
    count: float
    gb: float | None


def gpus_to_share(smallest: Resources) -> Gpus:
    """Return the GPUs of the running Ray cluster. A trial takes at least the resources ``smallest``."""
    import ray

    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("GPU", 0)]
    sizes = [gb for found in ask_nodes(gpu_memory, nodes=nodes).values() for gb in found or ()]
    count = sum(float(node["Resources"]["GPU"]) for node in nodes)
    return Gpus(slots=slots(nodes, smallest), count=count, gb=min(sizes, default=None))


def require_shared(folders: Sequence[Path]) -> None:
    """Check that the folders exist on every node, and that every node has the package versions of the driver.

    Raises:
        PlacementError: a node does not respond, has another version of a package, or a folder is missing there.
    """
    import ray

    deadline = time.monotonic() + _DEAD_NODE_SECONDS
    while len(nodes := [node for node in ray.nodes() if node["Alive"]]) > 1:
        missing = ask_nodes(unseen, [str(path) for path in folders], nodes=nodes)
        silent = [name for name, paths in missing.items() if paths is None]
        if not silent:
            break
        if time.monotonic() > deadline:
            raise PlacementError(
                f"node {', '.join(silent)} is part of the cluster but does not answer. Wait until the node answers, or "
                "remove it by running 'ray stop' on the node"
            )
        time.sleep(2.0)
    else:
        return  # a single machine sees its own folders
    for name, paths in missing.items():
        if paths:
            raise PlacementError(
                f"node {name} does not see {', '.join(paths)}. Put --out and the cache (XDG_CACHE_HOME) on storage "
                "that all nodes share"
            )
    here = versions()
    if is_shipped():
        del here[PROJECT]
    for name, there in ask_nodes(versions, nodes=nodes).items():
        if there is not None and (found := differences(here, there)):
            raise PlacementError(
                f"node {name} has other package versions than this machine: {', '.join(found)}. Install the versions "
                "in constraints.txt on all nodes; 'sweeper doctor --address' checks them"
            )


def is_shipped() -> bool:
    """Return whether Ray sends this project to the workers, for this driver or for the submitted job that runs it."""
    import ray

    return bool(ray.is_initialized() and "py_modules" in (ray.get_runtime_context().runtime_env or {}))
