"""Check the nodes of a Ray cluster, for ``doctor --address``."""

from __future__ import annotations

import contextlib
import uuid
from collections import Counter
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

    test_name = f".doctor-{uuid.uuid4().hex[:12]}"
    test_files: list[Path] = []
    used_storages: list[Storage] = []
    try:
        for storage in map(Storage, storages):
            storage.write(test_name, b"written by sweeper doctor\n")
            used_storages.append(storage)
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / test_name).write_text("written by sweeper doctor\n", encoding="utf-8")
            test_files.append(folder / test_name)
        with ray_cluster(address, resources=Resources(cpus=0, gpus=0)):
            alive_nodes = [node for node in ray.nodes() if node["Alive"]]
            return facts_of_nodes(alive_nodes, folders, mark=test_name, storages=storages)
    finally:
        for storage in used_storages:
            with contextlib.suppress(StorageError):
                storage.delete(test_name)
        for path in test_files:
            path.unlink(missing_ok=True)


def node_problems(nodes: Mapping[str, Facts | None]) -> list[str]:
    """Return an error message for each problem of each node."""
    # The version of this project is not compared, because a sweep sends its own version to the nodes.
    local_versions = {package: version for package, version in versions().items() if package != PROJECT}
    errors = []
    for name, facts in nodes.items():
        if facts is None:
            errors.append(f"{name} does not answer")
            continue
        errors += [f"{name} has {difference}" for difference in differences(local_versions, facts.versions)]
        errors += [
            f"{name} has no folder {path}: mount the shared folder on all nodes under this path"
            for path in facts.missing_folders
        ]
        errors += [f"{name} cannot read and write files in {path}: {reason}" for path, reason in facts.refused.items()]
    return errors


def format_nodes(nodes: Mapping[str, Facts | None]) -> list[str]:
    """Return one line of text per node, such as ``gpu7 (1f2e3d4c)  32 CPUs, 2 x H100, 210 GB of memory free``."""
    lines = []
    for name, facts in nodes.items():
        if facts is None:
            lines.append(f"{name}  does not answer")
            continue
        gpus = ", ".join(f"{count} x {gpu}" for gpu, count in Counter(facts.gpus).items())
        hardware = [f"{facts.cpus} CPUs", gpus or "no GPU"]
        if facts.memory_gb is not None:
            hardware.append(f"{facts.memory_gb:.0f} GB of memory free")
        disks = [f"{path}: {free:.0f} GB free" for path, free in facts.free_gb.items()]
        lines.append("; ".join([f"{name}  {', '.join(hardware)}", *disks]))
    return lines
