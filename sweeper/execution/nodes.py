"""Query the hardware, packages and folders of the nodes of a Ray cluster. One Ray task runs on each node."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

TIMEOUT = 30.0
"""Seconds to wait for the answer of a node."""

PROJECT = "unlearning-sweeper"
PACKAGES = ("torch", "transformers", "peft", "ray", PROJECT)
"""Packages that must have equal versions on all nodes. The project is not compared if Ray copies it to the nodes."""

T = TypeVar("T")
Node = Mapping[str, Any]
"""An entry of ``ray.nodes()``."""
Versions = Mapping[str, str | None]
"""The version of each package, or None if the package is not installed."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The hardware, package versions and accessible folders of a node.

    Attributes:
        gpus: the names of the GPUs that torch finds.
        memory_gb: the free main memory in GB (1e9 bytes); None if unknown.
        missing_folders: the requested folders that do not exist on the node.
        refused: the folders and storages that the node cannot read or write, mapped to the reasons.
        free_gb: the free disk space of each existing folder in GB (1e9 bytes).
    """

    versions: Versions
    cpus: int
    gpus: Sequence[str]
    memory_gb: float | None
    missing_folders: Sequence[str]
    refused: Mapping[str, str]
    free_gb: Mapping[str, float]


# Functions that run on a node: they must not import this project ----------------------------------------------------


def versions() -> dict[str, str | None]:
    """Return the versions of Python and of :data:`PACKAGES`."""
    import importlib.metadata
    import platform

    version_by_package: dict[str, str | None] = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            version_by_package[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            version_by_package[package] = None
    return version_by_package


def facts(paths: Sequence[str] = (), mark: str | None = None, storages: Sequence[str] = ()) -> dict[str, Any]:
    """Return the fields of :class:`Facts` for this machine.

    Args:
        mark: the name of a file that the driver wrote to each folder in ``paths`` and each storage. This function reads
            the file, and writes and deletes another file. If None, folders are not read or written.
        storages: the storage addresses to check, in pyarrow's format.
    """
    import pathlib
    import platform
    import shutil

    node_mark = f"{mark}-{platform.node()}-{os.getpid()}"

    def storage_error(uri: str) -> str | None:
        try:
            from pyarrow.fs import FileSystem

            filesystem, folder = FileSystem.from_uri(uri)
            with filesystem.open_input_stream(f"{folder}/{mark}") as stream:
                stream.read()
            with filesystem.open_output_stream(f"{folder}/{node_mark}") as stream:
                stream.write(b"x")
            filesystem.delete_file(f"{folder}/{node_mark}")
        except (ImportError, OSError, ValueError, NotImplementedError) as error:  # Arrow's errors are subclasses
            return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
        return None

    try:
        memory_gb = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    except (ValueError, OSError, AttributeError):
        memory_gb = None
    try:
        import torch

        gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    except ImportError:
        gpus = []
    missing = missing_folders(paths)
    existing = [path for path in paths if path not in missing]
    uris: dict[str, str] = {}
    if mark is not None:
        uris = {path: pathlib.Path(path).absolute().as_uri() for path in existing}
    uris |= {uri.partition("?")[0]: uri for uri in storages}
    refused = {}
    for folder, uri in uris.items():
        if reason := storage_error(uri):
            refused[folder] = reason
    return {
        "versions": versions(),
        "cpus": os.cpu_count() or 1,
        "gpus": gpus,
        "memory_gb": memory_gb,
        "missing_folders": missing,
        "refused": refused,
        "free_gb": {path: shutil.disk_usage(path).free / 1e9 for path in existing},
    }


def gpu_memory() -> list[float]:
    """Return the memory of each GPU in GB (1e9 bytes), or [] if ``nvidia-smi`` fails."""
    import subprocess

    command = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
        return [float(line) * 2**20 / 1e9 for line in output.split()]
    except (OSError, ValueError, subprocess.SubprocessError):
        return []


def missing_folders(paths: Sequence[str]) -> list[str]:
    """Return the folders that do not exist on this machine."""
    return [path for path in paths if not os.path.isdir(path)]


def missing_folders_and_versions(paths: Sequence[str]) -> tuple[list[str], dict[str, str | None]]:
    return missing_folders(paths), versions()


# Functions that run on the driver -------------------------------------------------------------------------------------


def ask_nodes(function: Callable[..., T], *arguments: object, nodes: Sequence[Node]) -> dict[str, T | None]:
    """Call a function of this module on each node. Return a mapping from node name to result.

    If a node does not answer within :data:`TIMEOUT` seconds, the result is None. The function is pickled by value, so
    it also runs on nodes with another version of the project.
    """
    import ray
    from ray import cloudpickle
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    tasks = {}
    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    try:
        remote = ray.remote(num_cpus=0, max_retries=0)(function)
        for node in nodes:
            strategy = NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False)
            name = f"{node['NodeManagerHostname']} ({str(node['NodeID'])[:8]})"
            tasks[name] = remote.options(scheduling_strategy=strategy).remote(*arguments)
    finally:
        cloudpickle.unregister_pickle_by_value(module)
    answers: dict[str, T | None] = {}
    for name, task in tasks.items():
        try:
            answers[name] = ray.get(task, timeout=TIMEOUT)
        except ray.exceptions.RayError:  # including timeouts
            answers[name] = None
    return answers


def facts_of_nodes(
    nodes: Sequence[Node], paths: Sequence[Path], *, mark: str | None = None, storages: Sequence[str] = ()
) -> dict[str, Facts | None]:
    """Return a mapping from node name to the node's facts, or to None if the node does not answer."""
    answers = ask_nodes(facts, [str(path) for path in paths], mark, list(storages), nodes=nodes)
    return {name: None if answer is None else Facts(**answer) for name, answer in answers.items()}


def differences(expected: Versions, actual: Versions) -> list[str]:
    """Return the package versions that differ, such as ``torch 2.4.0 instead of 2.13.0`` or ``no peft``."""
    return [
        f"{package} {actual[package]} instead of {version}" if actual.get(package) else f"no {package}"
        for package, version in expected.items()
        if actual.get(package) != version
    ]
