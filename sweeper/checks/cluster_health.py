"""Check the nodes of a Ray cluster, for ``doctor --address``."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from sweeper.execution.cluster import ray_cluster, set_environment
from sweeper.execution.nodes import PROJECT, Facts, differences, facts_of_nodes, versions
from sweeper.execution.placement import PlacementError, address_problem
from sweeper.settings.resources import Resources
from trainables.storage import Storage, StorageError


def query_cluster(address: str, folders: Sequence[Path], storages: Sequence[str] = ()) -> dict[str, Facts | None]:
    """Return the hardware, versions and folders of each node, keyed by node name; None if a node does not respond.

    To check access, this machine writes a test file to each folder in ``folders`` and to each bucket in ``storages``.
    Each node reads this file, and writes and deletes a test file of its own.
    """
    if problem := address_problem(address):
        raise PlacementError(problem)
    set_environment(address)
    import ray

    mark = f".doctor-{uuid.uuid4().hex[:12]}"
    written: list[Path] = []
    stored: list[Storage] = []
    try:
        for storage in map(Storage, storages):
            storage.write(mark, b"written by sweeper doctor\n")
            stored.append(storage)
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / mark).write_text("written by sweeper doctor\n", encoding="utf-8")
            written.append(folder / mark)
        with ray_cluster(address, resources=Resources(cpus=0, gpus=0)):
            alive = [node for node in ray.nodes() if node["Alive"]]
            return facts_of_nodes(alive, folders, mark=mark, storages=storages)
    finally:
        for storage in stored:
            with contextlib.suppress(StorageError):
                storage.delete(mark)
        for path in written:
            path.unlink(missing_ok=True)


def node_problems(nodes: Mapping[str, Facts | None]) -> list[str]:
    """Return an error message for each problem of each node."""
    here, found = versions(), []
    del here[PROJECT]  # a sweep sends its own version of this project to the nodes
    for name, facts in nodes.items():
        if facts is None:
            found.append(f"{name} does not answer")
            continue
        found += [f"{name} has {difference}" for difference in differences(here, facts.versions)]
        found += [
            f"{name} has no folder {path}: mount the shared folder on all nodes under this path"
            for path in facts.missing
        ]
        found += [f"{name} cannot read and write files in {path}: {reason}" for path, reason in facts.refused.items()]
    return found


def format_nodes(nodes: Mapping[str, Facts | None]) -> list[str]:
    """Return one line of text per node, such as ``gpu7 (1f2e3d4c)  32 CPUs, 2 x H100, 210 GB of memory free``."""
    lines = []
    for name, facts in nodes.items():
        if facts is None:
            lines.append(f"{name}  does not answer")
            continue
        gpus = {gpu: facts.gpus.count(gpu) for gpu in facts.gpus}
        parts = [f"{facts.cpus} CPUs", ", ".join(f"{count} x {gpu}" for gpu, count in gpus.items()) or "no GPU"]
        parts += [] if facts.memory_gb is None else [f"{facts.memory_gb:.0f} GB of memory free"]
        disks = "; ".join(f"{path}: {free:.0f} GB free" for path, free in facts.free_gb.items())
        lines.append("; ".join(filter(None, (f"{name}  {', '.join(parts)}", disks))))
    return lines
