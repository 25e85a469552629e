"""What the nodes of a cluster are, and whether they are alike: asked by a task on each of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

ANSWERS = 30.0
"""Seconds a node has to answer."""

PROJECT = "unlearning-sweeper"
PACKAGES = ("torch", "transformers", "peft", "ray", PROJECT)
"""What the driver and the nodes must have in the same version: weights, states and code travel between them.

The project itself only where a sweep does not bring it, see :mod:`sweeper.execution.shipping`.
"""

T = TypeVar("T")
Node = Mapping[str, Any]
"""As ``ray.nodes()`` has it."""
Versions = Mapping[str, str | None]
"""By package; None for one that is missing."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a process sees of its machine.

    Attributes:
        versions: of Python and of :data:`PACKAGES`.
        cpus, gpus: processors, and the names of the GPUs that torch sees.
        memory_gb: free memory, 1e9 bytes; None where the system does not say.
        unseen: which of the folders asked for are not there.
        refused: folders and storages that cannot be written to, or do not hold what the driver wrote, each with the
            reason.
        free_gb: of each folder that is there, free disk, 1e9 bytes.
    """

    versions: Versions
    cpus: int
    gpus: Sequence[str]
    memory_gb: float | None
    unseen: Sequence[str]
    refused: Mapping[str, str]
    free_gb: Mapping[str, float]


def versions() -> dict[str, str | None]:
    """Of Python and of :data:`PACKAGES`, of the machine it runs on."""
    import importlib.metadata
    import platform

    found: dict[str, str | None] = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return found


def facts(paths: Sequence[str] = (), mark: str | None = None, storages: Sequence[str] = ()) -> dict[str, Any]:
    """The fields of :class:`Facts`, of the machine it runs on; nothing of this project is imported.

    With ``mark``, the name of a file that the driver has put into each folder and into each storage (an address as
    pyarrow reads it), it is read, and one beside it written.
    """
    import platform
    import shutil

    beside = f"{mark}-{platform.node()}-{os.getpid()}"

    def storage_refusal(uri: str) -> str | None:
        try:
            from pyarrow.fs import FileSystem

            filesystem, place = FileSystem.from_uri(uri)
            with filesystem.open_input_stream(f"{place}/{mark}") as stream:
                stream.read()
            with filesystem.open_output_stream(f"{place}/{beside}") as stream:
                stream.write(b"x")
            filesystem.delete_file(f"{place}/{beside}")
        except (ImportError, OSError, ValueError, NotImplementedError) as error:  # Arrow's own are of these
            return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
        return None

    def refusal(path: str) -> str | None:
        own = os.path.join(path, beside)
        try:
            with open(os.path.join(path, str(mark)), encoding="utf-8") as file:
                file.read()
            with open(own, "w", encoding="utf-8") as file:
                file.write("x")
            os.unlink(own)
        except OSError as error:
            return str(error.strerror or error)
        return None

    try:
        memory = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    except (ValueError, OSError, AttributeError):
        memory = None
    try:
        import torch

        gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    except ImportError:
        gpus = []
    missing = unseen(paths)
    seen = [path for path in paths if path not in missing]
    refused = {path: reason for path in seen if mark and (reason := refusal(path))}
    refused |= {uri.partition("?")[0]: reason for uri in storages if (reason := storage_refusal(uri))}
    return {
        "versions": versions(),
        "cpus": os.cpu_count() or 1,
        "gpus": gpus,
        "memory_gb": memory,
        "unseen": missing,
        "refused": refused,
        "free_gb": {path: shutil.disk_usage(path).free / 1e9 for path in seen},
    }


def gpu_memory() -> list[float]:
    """GB (1e9 bytes) of each GPU of the machine it runs on, by its driver; [] where that does not say."""
    import subprocess

    asked = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        said = subprocess.run(asked, capture_output=True, text=True, timeout=20, check=True).stdout
        return [float(line) * 2**20 / 1e9 for line in said.split()]
    except (OSError, ValueError, subprocess.SubprocessError):
        return []


def ask_nodes(question: Callable[..., T], *arguments: object, nodes: Sequence[Node]) -> dict[str, T | None]:
    """The answer of each node, by its name; None of one that does not answer within :data:`ANSWERS` seconds.

    ``question`` is a function of this module, sent by value: a node is to answer whatever project it has, if any.
    """
    import ray
    from ray import cloudpickle
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    asked = {}
    here = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(here)
    try:
        remote = ray.remote(num_cpus=0, max_retries=0)(question)
        for node in nodes:
            strategy = NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False)
            name = f"{node['NodeManagerHostname']} ({str(node['NodeID'])[:8]})"
            asked[name] = remote.options(scheduling_strategy=strategy).remote(*arguments)
    finally:
        cloudpickle.unregister_pickle_by_value(here)
    found: dict[str, T | None] = {}
    for name, answer in asked.items():
        try:
            found[name] = ray.get(answer, timeout=ANSWERS)
        except ray.exceptions.RayError:  # among them that the time is over
            found[name] = None
    return found


def facts_of_nodes(
    nodes: Sequence[Node], paths: Sequence[Path], *, mark: str | None = None, storages: Sequence[str] = ()
) -> dict[str, Facts | None]:
    """:class:`Facts` of each node, by its name; None of one that does not answer."""
    answers = ask_nodes(facts, [str(path) for path in paths], mark, list(storages), nodes=nodes)
    return {name: None if answer is None else Facts(**answer) for name, answer in answers.items()}


def unseen(paths: Sequence[str]) -> list[str]:
    """Which of the folders are not there, on the machine it runs on."""
    return [path for path in paths if not os.path.isdir(path)]


def differences(here: Versions, there: Versions) -> list[str]:
    """In what another machine differs: ``torch 2.4.0 in place of 2.13.0``, ``no peft``."""
    found = []
    for package, expected in here.items():
        version = there.get(package)
        if version != expected:
            found.append(f"no {package}" if version is None else f"{package} {version} in place of {expected}")
    return found
