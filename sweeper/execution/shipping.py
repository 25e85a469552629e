"""The driver's own project on the nodes of a cluster: Ray's runtime environment takes it to every worker.

What a worker imports is what the driver runs, whatever the nodes have installed, if anything. What the project itself
imports (torch, transformers, ...) stays the nodes' affair, and is compared before the first trial.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Mapping
from typing import Any

from sweeper.store.version import PACKAGES

NOT_SHIPPED = ("__pycache__",)
_OF_JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""Where Ray keeps the environment of a job that was submitted, which this process may add to, and not change."""


def project_folders() -> list[str]:
    """The folders of the project's packages, of a checkout or an installation; nothing of what lies beside them."""
    found = []
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None or not spec.submodule_search_locations:
            raise ModuleNotFoundError(f"the package {name} has no folder")
        found.append(str(spec.submodule_search_locations[0]))
    return found


def runtime_env(*, ship: bool, variables: Mapping[str, str]) -> dict[str, Any]:
    """Ray's runtime environment for a cluster: the project unless ``ship`` is False, and variables.

    Of a submitted job that brings packages of its own nothing is added to them.
    """
    brought = _brought_by_job()
    found: dict[str, Any] = {"env_vars": dict(variables)} if variables else {}
    if ship and "py_modules" not in brought:
        found["py_modules"] = project_folders()
        if "excludes" not in brought:
            found["excludes"] = [*NOT_SHIPPED]
    return found


def is_shipped() -> bool:
    """Whether the workers of the cluster that this process has joined have the project from a driver."""
    import ray

    return bool(ray.is_initialized() and "py_modules" in (ray.get_runtime_context().runtime_env or {}))


def _brought_by_job() -> Mapping[str, Any]:
    """The runtime environment that ``ray job submit`` was given."""
    try:
        found = json.loads(os.environ.get(_OF_JOB, "{}")).get("runtime_env")
    except (ValueError, AttributeError):
        return {}
    return found if isinstance(found, dict) else {}
